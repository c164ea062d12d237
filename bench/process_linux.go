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

// clockTick is the unit of /proc/PID/stat. On every architecture of Go, Linux reports 100
// ticks per second to programs.
const clockTick = 10 * time.Millisecond

// ReadUsage returns the resource usage of a process so far.
func ReadUsage(pid int) (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read the server's processor time: %w", err)
	}
	// The second field is the program's name, which may contain anything.
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
	return u, nil
}

// DiskWritten returns how many bytes the disk of a directory has written, by all
// processes and including the file system's own records, after flushing everything. It is
// unknown for a directory that is not on a disk of this machine.
func DiskWritten(dir string) (n int64, known bool) {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return 0, false
	}
	syscall.Sync()
	stats, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, false
	}
	return sectorsWritten(string(stats), uint64(st.Dev))
}

// sectorsWritten finds a device in /proc/diskstats, where a sector has 512 bytes
// (proc(5)).
func sectorsWritten(stats string, device uint64) (n int64, known bool) {
	major, minor := device>>8&0xfff, device&0xff|device>>12&0xfff00
	for line := range strings.Lines(stats) {
		const written = 9
		f := strings.Fields(line)
		if len(f) > written && f[0] == strconv.FormatUint(major, 10) && f[1] == strconv.FormatUint(minor, 10) {
			n, err := strconv.ParseInt(f[written], 10, 64)
			return n * 512, err == nil
		}
	}
	return 0, false
}

// SocketOwner returns the process that listens on a Unix socket.
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
