package doctor

import "syscall"

// kernelClock reports whether the kernel considers its clock synchronised
// (adjtimex(2)).
func kernelClock() (synchronised, known bool) {
	const unsynchronised = 5 // TIME_ERROR
	state, err := syscall.Adjtimex(&syscall.Timex{})
	return state != unsynchronised, err == nil
}
