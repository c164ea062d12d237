package testkit

import (
	"os"
	"runtime"
	"syscall"
)

// AsNobody runs do as a user who may read no file of the tests, where they run as root, who
// may read everything.
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
