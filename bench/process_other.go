//go:build !linux

package bench

import "errors"

var errNoProc = errors.New("a server's own use of the machine can be read on Linux only")

// ReadUsage returns an error on this system.
func ReadUsage(int) (Usage, error) { return Usage{}, errNoProc }

// SocketOwner returns an error on this system.
func SocketOwner(string) (int, error) { return 0, errNoProc }

// DiskWritten returns unknown on this system.
func DiskWritten(string) (n int64, known bool) { return 0, false }
