//! A program beside the test, such as a kubectl that forwards a port: it is ended with the value
//! that stands for it.

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A child that is ended with its test.
pub struct GuardedChild(pub Child);

impl GuardedChild {
    /// Starts it; what it prints is there to be read, and what it reads to be written.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("start it"))
    }

    /// What it prints from now on, line by line. To be asked for once.
    pub fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        BufReader::new(self.0.stdout.take().expect("piped, and not taken before")).lines()
    }

    /// The same of its standard error, too, which has to be piped. Two pipes have no order between
    /// them.
    pub fn all_lines(&mut self) -> Receiver<String> {
        let (sender, lines) = channel();
        pass_on(self.0.stdout.take().expect("piped, and not taken before"), sender.clone());
        pass_on(self.0.stderr.take().expect("piped, and not taken before"), sender);
        lines
    }
}

/// Hands lines on to the end, so that the program never blocks on a full pipe.
fn pass_on(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _nobody_listens = to.send(line);
        }
    });
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped_before = self.0.wait();
    }
}
