//! ptrace, one call a function.
#![allow(unsafe_code)]

use std::io;

fn ptrace(request: libc::c_uint, tid: i32, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: requests used here read or write registers and memory of the traced thread only; the
    // pointers passed in `data` are to plain structs that live over the call.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Attaches without stopping, then stops the thread.
pub(crate) fn seize(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, 0)?;
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)?;
    wait(tid)
}

/// Lets the thread go on untraced.
pub(crate) fn detach(tid: i32) {
    let _ = ptrace(libc::PTRACE_DETACH, tid, 0, 0);
}

/// One instruction.
pub(crate) fn single_step(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0)?;
    wait(tid)
}

fn wait(tid: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: fills one integer.
    let waited = unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
    if waited != tid {
        return Err(io::Error::last_os_error());
    }
    if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
        return Err(io::Error::other("the traced thread ended"));
    }
    Ok(())
}

/// Instruction pointer, rax and rsi of the stopped thread.
pub(crate) fn registers(tid: i32) -> io::Result<(u64, u64, u64)> {
    // SAFETY: plain integers; all-zero is valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, std::ptr::from_mut(&mut registers) as u64)?;
    Ok((registers.rip, registers.rax, registers.rsi))
}

/// Eight bytes of the thread's memory.
pub(crate) fn peek(tid: i32, address: u64) -> u64 {
    // SAFETY: reads one word of the traced thread; an unmapped address gives -1.
    unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, tid, address, 0) as u64 }
}
