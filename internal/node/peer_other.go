//go:build !linux

package node

// peerUser returns -1: only Linux is asked who has connected.
func peerUser(int) int { return -1 }
