//! `demo signal`: waits for signals, says which came, and obeys or ignores them.

use std::time::Duration;

use crate::{DemoError, EXIT_CODE_TERMINATED, Termination, duration};

/// Wait, and obey or ignore SIGTERM.
#[derive(Clone, Debug, clap::Args)]
pub struct SignalDemo {
    /// What a SIGTERM or SIGINT does
    #[arg(long, value_enum, default_value_t = OnTerm::Exit)]
    on_term: OnTerm,
    /// How long to go on after the signal, with --on-term exit
    #[arg(long, value_parser = duration, default_value = "0s")]
    delay: Duration,
    /// The exit code after the signal
    #[arg(long, default_value_t = 0)]
    exit_code: u8,
    /// How long to do nothing before the line "ready" is printed
    #[arg(long, value_parser = duration, default_value = "0s")]
    start_delay: Duration,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnTerm {
    /// End with the exit code, after the delay.
    Exit,
    /// End at once with 143, as a program that leaves signals to the kernel.
    Die,
    /// Go on: only SIGKILL ends it.
    Ignore,
}

impl SignalDemo {
    pub(crate) async fn run(self) -> Result<u8, DemoError> {
        let mut termination = Termination::listen()?;
        println!("started");
        tokio::select! {
            () = tokio::time::sleep(self.start_delay) => println!("ready"),
            name = termination.next(), if !matches!(self.on_term, OnTerm::Ignore) => {
                return Ok(self.obey(name).await);
            }
        }
        loop {
            let name = termination.next().await;
            match self.on_term {
                OnTerm::Exit | OnTerm::Die => return Ok(self.obey(name).await),
                OnTerm::Ignore => println!("ignored {name}"),
            }
        }
    }

    async fn obey(&self, name: &str) -> u8 {
        if matches!(self.on_term, OnTerm::Die) {
            return EXIT_CODE_TERMINATED;
        }
        println!("got {name}, ending in {}", humantime::format_duration(self.delay));
        tokio::time::sleep(self.delay).await;
        println!("ended");
        self.exit_code
    }
}
