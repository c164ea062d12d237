// Package freeport finds TCP ports for programs that cannot choose one themselves.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Reserve returns a port of a host on which nobody listens. It is below those that the
// kernel gives to connections: until the program listens, and while it is down, no
// connection takes it. No other test gets the port, of whatever process, before release
// is called or this process ends: a socket outside of the file system has its number.
// Nor does any test get the port two above it, where a server of --dev has its console.
func Reserve(host string) (port int, release func(), err error) {
	for range 1000 {
		port = 11_000 + rand.IntN(5_000)*4 + rand.IntN(2)
		// Not a net.Listener, which the garbage collector closes.
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, nil, err
		}
		if err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprint("@mintage-port-", port)}); err == nil {
			err = try(net.JoinHostPort(host, strconv.Itoa(port)))
		}
		if err == nil {
			return port, func() { syscall.Close(fd) }, nil
		}
		syscall.Close(fd)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, nil, err
		}
	}
	return 0, nil, errors.New("no free port between 11000 and 31000")
}

// try listens for a moment in which this process starts no other one: that would hold
// the socket, too, until its program runs.
func try(address string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}
