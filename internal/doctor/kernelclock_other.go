//go:build !linux

package doctor

// kernelClock is what the kernel knows of its clock.
func kernelClock() (synchronised, known bool) { return false, false }
