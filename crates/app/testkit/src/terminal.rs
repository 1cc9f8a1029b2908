//! A terminal for a program under test: a pty, and a screen that understands the few control
//! sequences that the program may use. Anything else it writes shows up as text, and fails the
//! comparison.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::PATIENCE;

/// Runs this command with one more word on a terminal of this size, which is not typed at, to its
/// end: as a user's shell would.
pub fn on_terminal(command: &Command, rows: u16, columns: u16, inside: &str) -> Output {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted: Vec<String> =
        words.map(|word| format!("'{}'", word.to_str().expect("UTF-8"))).collect();
    let line = format!("stty rows {rows} cols {columns}; {} '{inside}'", quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    script.output().expect("run script of util-linux")
}

/// A program that runs on a terminal of its own. Dropping it hangs up.
pub struct TestTerminal {
    child: Child,
    master: OwnedFd,
    output: Receiver<Vec<u8>>,
    screen: TerminalScreen,
    /// The beginning of a character whose end has not come yet.
    unfinished: Vec<u8>,
}

impl TestTerminal {
    /// Runs a command with this terminal as its controlling one.
    pub fn run(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("make a pty");
        grantpt(&master).expect("grant the pty");
        unlockpt(&master).expect("unlock the pty");
        set_size(&master, columns, rows);
        let name = ptsname(&master, Vec::new()).expect("the pty's name");
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name.to_str().expect("a path"))
            .expect("open the pty");
        let stdio = || Stdio::from(slave.try_clone().expect("share the pty"));
        // Ctrl-C and changes of size reach only a program whose controlling terminal it is.
        let mut in_session = Command::new("setsid");
        in_session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => in_session.env(name, value),
                None => in_session.env_remove(name),
            };
        }
        let child = in_session
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .expect("run setsid of util-linux");
        let (sender, output) = channel();
        let mut reader = File::from(master.try_clone().expect("share the pty"));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // it ends with an error when the last process has closed the other side
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            master,
            output,
            screen: TerminalScreen::new(columns, rows),
            unfinished: Vec::new(),
        }
    }

    /// What is on the screen, once it is as it should be.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, done: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.screen.text();
            if done(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("no {what} came; the screen:\n{text}"),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the program ended; the screen:\n{text}")
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.unfinished.extend_from_slice(bytes);
        for chunk in std::mem::take(&mut self.unfinished).utf8_chunks() {
            if !self.unfinished.is_empty() {
                self.screen.take("\u{fffd}"); // more came, but not its end
            }
            self.screen.take(chunk.valid());
            self.unfinished = chunk.invalid().to_vec();
        }
    }

    /// As a user who pulls at the window's corner.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        while let Ok(bytes) = self.output.try_recv() {
            self.take(&bytes);
        }
        self.screen.resize(columns, rows);
        set_size(&self.master, columns, rows);
    }

    /// Interrupts the program.
    pub fn press_ctrl_c(&self) {
        self.send(b"\x03");
    }

    /// Types a line and presses enter.
    pub fn enter(&self, line: &str) {
        self.send(format!("{line}\r").as_bytes());
    }

    fn send(&self, keys: &[u8]) {
        File::from(self.master.try_clone().expect("share the pty"))
            .write_all(keys)
            .expect("write to the pty");
    }

    /// How the program ended, and the screen then.
    pub fn wait_for_end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("reap setsid");
        // the reader ends once no process has the terminal any more: then it has handed over all
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => return (status, self.screen.text()),
                Err(RecvTimeoutError::Timeout) => panic!("a process kept the terminal"),
            }
        }
    }
}

fn set_size(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("set the terminal's size");
}

/// A screen as terminals have it: lines fold at its edge, and what runs out at the top is gone.
struct TerminalScreen {
    columns: usize,
    rows: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// An escape sequence whose end has not come yet.
    unfinished: String,
}

impl TerminalScreen {
    fn new(columns: u16, rows: u16) -> Self {
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        Self {
            columns,
            rows,
            lines: vec![Vec::new(); rows],
            row: 0,
            column: 0,
            unfinished: String::new(),
        }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.iter().collect::<String>());
        lines.map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        *self =
            Self { unfinished: std::mem::take(&mut self.unfinished), ..Self::new(columns, rows) };
    }

    fn take(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                _ if !self.unfinished.is_empty() => self.escape(character),
                '\x1b' => self.unfinished.push(character),
                '\r' => self.column = 0,
                '\n' => self.line_feed(),
                _ => self.put(character),
            }
        }
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.column = 0;
            self.line_feed();
        }
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = character;
        self.column += 1;
    }

    fn line_feed(&mut self) {
        if self.row + 1 == self.rows {
            self.lines.remove(0);
            self.lines.push(Vec::new());
        } else {
            self.row += 1;
        }
    }

    fn escape(&mut self, character: char) {
        self.unfinished.push(character);
        if !character.is_ascii_alphabetic() {
            return;
        }
        let sequence = std::mem::take(&mut self.unfinished);
        let number = || sequence[2..sequence.len() - 1].parse().unwrap_or(1);
        match character {
            'A' => self.row = self.row.saturating_sub(number()),
            'm' => {} // a colour
            'H' => (self.row, self.column) = (0, 0),
            'J' if number() == 2 => self.lines = vec![Vec::new(); self.rows],
            'J' => {
                self.lines[self.row].truncate(self.column);
                self.lines[self.row + 1..].fill(Vec::new());
            }
            _ => sequence.chars().skip(1).for_each(|character| self.put(character)),
        }
    }
}
