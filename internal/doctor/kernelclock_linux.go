package doctor

import "syscall"

// kernelClock is what the kernel knows of its clock (adjtimex(2)).
func kernelClock() (synchronised, known bool) {
	const unsynchronised = 5 // TIME_ERROR
	state, err := syscall.Adjtimex(&syscall.Timex{})
	return state != unsynchronised, err == nil
}
