package testkit

import (
	"os"
	"runtime"
	"syscall"
)

// AsNobody runs do. If the tests run as root, do runs as a user who may not read the
// tests' files, because root may read everything.
func AsNobody(do func() error) error {
	result := make(chan error)
	go func() {
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				result <- err
				return
			}
		}
		result <- do()
	}()
	return <-result
}
