//! The process beside each pod sandbox. See the library for what it does.

fn main() {
    rekindle_shim::run();
}
