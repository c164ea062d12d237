package node

import "syscall"

// peerUser returns the user id of the process that has connected to a Unix socket, or
// -1.
func peerUser(fd int) int {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return -1
	}
	return int(peer.Uid)
}
