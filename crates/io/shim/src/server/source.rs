//! What the shim's loop is woken by.

use rustix::event::epoll::EventData;

use crate::log_records::OutputStream;

/// What a wake-up is about. Packed into epoll's 64 bits: the number of the container (or command,
/// or root), then three bits for which of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeSource {
    Listener,
    Agent,
    /// The first process of the containers' common PID namespace.
    Init,
    /// Some child has ended.
    Children,
    /// The process that puts a container's root together has ended.
    Builder(u32),
    /// The process that makes a root ahead of need has ended.
    RootBuilder(u32),
    Exit(u32),
    Status(u32),
    Output(u32, OutputStream),
    CommandStatus(u32),
    CommandExit(u32),
}

impl WakeSource {
    pub(super) fn pack(self) -> EventData {
        let (number, file) = match self {
            WakeSource::Listener => (0, 0),
            WakeSource::Agent => (0, 1),
            // No container has the number 0.
            WakeSource::Init => (0, 2),
            WakeSource::Children => (0, 3),
            WakeSource::Builder(number) => (number, 0),
            WakeSource::RootBuilder(number) => (number, 1),
            WakeSource::Exit(number) => (number, 2),
            WakeSource::Status(number) => (number, 3),
            WakeSource::Output(number, OutputStream::Stdout) => (number, 4),
            WakeSource::Output(number, OutputStream::Stderr) => (number, 5),
            WakeSource::CommandStatus(number) => (number, 6),
            WakeSource::CommandExit(number) => (number, 7),
        };
        EventData::new_u64(u64::from(number) << 3 | file)
    }

    /// `None` of what no source is packed into.
    pub(super) fn unpack(data: EventData) -> Option<Self> {
        let number = u32::try_from(data.u64() >> 3).ok()?;
        Some(match data.u64() & 7 {
            0 if number == 0 => WakeSource::Listener,
            0 => WakeSource::Builder(number),
            1 if number == 0 => WakeSource::Agent,
            1 => WakeSource::RootBuilder(number),
            2 if number == 0 => WakeSource::Init,
            3 if number == 0 => WakeSource::Children,
            2 => WakeSource::Exit(number),
            3 => WakeSource::Status(number),
            4 => WakeSource::Output(number, OutputStream::Stdout),
            5 => WakeSource::Output(number, OutputStream::Stderr),
            6 => WakeSource::CommandStatus(number),
            7 => WakeSource::CommandExit(number),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_epoll() {
        let sources = [
            WakeSource::Listener,
            WakeSource::Agent,
            WakeSource::Init,
            WakeSource::Children,
            WakeSource::Builder(1),
            WakeSource::RootBuilder(1),
            WakeSource::Exit(1),
            WakeSource::Status(u32::MAX),
            WakeSource::Output(7, OutputStream::Stdout),
            WakeSource::Output(7, OutputStream::Stderr),
            WakeSource::CommandStatus(8),
            WakeSource::CommandExit(9),
        ];
        for source in sources {
            assert_eq!(WakeSource::unpack(source.pack()), Some(source));
        }
    }
}
