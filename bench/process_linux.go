package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of /proc/PID/stat. Linux shows a hundred a second to
// programs on every architecture that Go knows.
const clockTick = 10 * time.Millisecond

// ReadUsage reads what a process has used so far.
func ReadUsage(pid int) (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read the server's processor time: %w", err)
	}
	// The second field is the program's name, which may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 14 - 3, 15 - 3 // proc(5) counts from 1, and the name is field 2
	if len(fields) <= system {
		return u, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	for _, f := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read the server's memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			u.Resident = kib << 10
		case name == "VmHWM":
			u.Peak = kib << 10
		}
	}
	// Only the process's owner may read this file.
	disk, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	u.Written = written(disk)
	return u, nil
}

// written reads the bytes that a process had the disk store from its
// /proc/PID/io (proc(5)), or 0.
func written(io []byte) int64 {
	for line := range strings.Lines(string(io)) {
		if text, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

// SocketOwner is the process that listens on a Unix socket.
func SocketOwner(path string) (pid int, err error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, inner); err != nil {
		return 0, fmt.Errorf("who listens on %s: %w", path, err)
	}
	return int(cred.Pid), nil
}
