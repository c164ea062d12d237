//go:build !linux

package doctor

// kernelClock reports whether the kernel considers its clock synchronised.
func kernelClock() (synchronised, known bool) { return false, false }
