//! What the shim's loop is woken by.

use rustix::event::epoll::EventData;

use crate::log_records::Stream;

/// What a wake-up is about. Packed into epoll's 64 bits: the number of the container (or command,
/// or root), then three bits for which of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
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
    Output(u32, Stream),
    CommandStatus(u32),
    CommandExit(u32),
}

impl Source {
    pub(super) fn pack(self) -> EventData {
        let (number, file) = match self {
            Source::Listener => (0, 0),
            Source::Agent => (0, 1),
            // No container has the number 0.
            Source::Init => (0, 2),
            Source::Children => (0, 3),
            Source::Builder(number) => (number, 0),
            Source::RootBuilder(number) => (number, 1),
            Source::Exit(number) => (number, 2),
            Source::Status(number) => (number, 3),
            Source::Output(number, Stream::Stdout) => (number, 4),
            Source::Output(number, Stream::Stderr) => (number, 5),
            Source::CommandStatus(number) => (number, 6),
            Source::CommandExit(number) => (number, 7),
        };
        EventData::new_u64(u64::from(number) << 3 | file)
    }

    /// `None` of what no source is packed into.
    pub(super) fn unpack(data: EventData) -> Option<Self> {
        let number = u32::try_from(data.u64() >> 3).ok()?;
        Some(match data.u64() & 7 {
            0 if number == 0 => Source::Listener,
            0 => Source::Builder(number),
            1 if number == 0 => Source::Agent,
            1 => Source::RootBuilder(number),
            2 if number == 0 => Source::Init,
            3 if number == 0 => Source::Children,
            2 => Source::Exit(number),
            3 => Source::Status(number),
            4 => Source::Output(number, Stream::Stdout),
            5 => Source::Output(number, Stream::Stderr),
            6 => Source::CommandStatus(number),
            7 => Source::CommandExit(number),
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
            Source::Listener,
            Source::Agent,
            Source::Init,
            Source::Children,
            Source::Builder(1),
            Source::RootBuilder(1),
            Source::Exit(1),
            Source::Status(u32::MAX),
            Source::Output(7, Stream::Stdout),
            Source::Output(7, Stream::Stderr),
            Source::CommandStatus(8),
            Source::CommandExit(9),
        ];
        for source in sources {
            assert_eq!(Source::unpack(source.pack()), Some(source));
        }
    }
}
