//! What has gone through the interfaces of a network namespace, as the kernel counts it.

use std::fs;
use std::io;

/// One interface since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// `eth0`.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets that arrived damaged.
    pub rx_errors: u64,
    /// Packets that arrived and were thrown away.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets that were to be sent and were thrown away.
    pub tx_dropped: u64,
}

/// The interfaces of the network namespace that this process is in, loopback aside. Blocks,
/// shortly.
///
/// # Errors
/// When there is no such process.
pub fn interface_counters(pid: u32) -> io::Result<Vec<InterfaceCounters>> {
    Ok(parse(&fs::read_to_string(format!("/proc/{pid}/net/dev"))?))
}

/// Reads the text of /proc/net/dev: two lines of headings, then `name: ` with eight counters of
/// what was received and eight of what was sent. A line that reads otherwise is left out.
fn parse(text: &str) -> Vec<InterfaceCounters> {
    text.lines().skip(2).filter_map(parse_line).filter(|found| found.name != "lo").collect()
}

fn parse_line(line: &str) -> Option<InterfaceCounters> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> =
        numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [rx_bytes, rx_packets, rx_errors, rx_dropped, _, _, _, _, sent @ ..] = numbers.as_slice()
    else {
        return None;
    };
    let [tx_bytes, tx_packets, tx_errors, tx_dropped, ..] = sent else { return None };
    Some(InterfaceCounters {
        name: name.trim().to_owned(),
        rx_bytes: *rx_bytes,
        rx_packets: *rx_packets,
        rx_errors: *rx_errors,
        rx_dropped: *rx_dropped,
        tx_bytes: *tx_bytes,
        tx_packets: *tx_packets,
        tx_errors: *tx_errors,
        tx_dropped: *tx_dropped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:   84000    1000    0    0    0     0          0         0    84000    1000    0    0    0     0       0          0
  eth0: 1234567    4321    1    2    0     0          0         0  7654321    1234    3    4    0     0       0          0
broken: 1 2 3
";

    #[test]
    fn every_interface_but_loopback_is_read() {
        let eth0 = InterfaceCounters {
            name: "eth0".to_owned(),
            rx_bytes: 1_234_567,
            rx_packets: 4321,
            rx_errors: 1,
            rx_dropped: 2,
            tx_bytes: 7_654_321,
            tx_packets: 1234,
            tx_errors: 3,
            tx_dropped: 4,
        };
        assert_eq!(parse(TEXT), [eth0]);
    }

    #[test]
    fn this_process_has_counters_and_one_that_is_not_there_has_none() {
        assert!(interface_counters(std::process::id()).is_ok());
        assert!(interface_counters(0).is_err());
    }
}
