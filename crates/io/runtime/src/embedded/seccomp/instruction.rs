//! One instruction of a classic BPF program, as the kernel takes it, and the codes of those that
//! filters are made of.

// linux/filter.h, linux/bpf_common.h
pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_ABOVE: u16 = 0x25; // BPF_JGT
pub(super) const JUMP_NOT_BELOW: u16 = 0x35; // BPF_JGE
pub(super) const RETURN: u16 = 0x06;

/// One instruction of `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeccompInstruction {
    pub(super) code: u16,
    pub(super) jump_true: u8,
    pub(super) jump_false: u8,
    pub(super) value: u32,
}

pub(super) const fn plain(code: u16, value: u32) -> SeccompInstruction {
    instruction(code, 0, 0, value)
}

pub(super) const fn instruction(
    code: u16,
    jump_true: u8,
    jump_false: u8,
    value: u32,
) -> SeccompInstruction {
    SeccompInstruction { code, jump_true, jump_false, value }
}
