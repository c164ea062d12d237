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

// Reserve returns a port of host on which no process listens. It is below the kernel's
// range of ports for connections, so that no connection takes it before the program
// listens or while it is down. An abstract socket reserves the port among all test
// processes until release is called or this process ends. No test gets the port two above
// it, where a server of --dev has its console.
func Reserve(host string) (port int, release func(), err error) {
	for range 1000 {
		port = 11_000 + rand.IntN(5_000)*4 + rand.IntN(2)
		// A net.Listener would be closed by the garbage collector.
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

// try listens briefly on address. It prevents this process from starting another one
// meanwhile, which would inherit the socket until it runs its program.
func try(address string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}
