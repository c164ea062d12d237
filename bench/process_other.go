//go:build !linux

package bench

import "errors"

var errNoProc = errors.New("a server's own use of the machine can be read on Linux only")

// ReadUsage reads what a process has used so far.
func ReadUsage(int) (Usage, error) { return Usage{}, errNoProc }

// SocketOwner is the process that listens on a Unix socket.
func SocketOwner(string) (int, error) { return 0, errNoProc }

// DiskWritten is how many bytes the disk of a directory has written.
func DiskWritten(string) (n int64, known bool) { return 0, false }
