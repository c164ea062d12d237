package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kill ends the server as the loss of its machine would: all of its processes at
// once, without a message to a standby or a write to the disk. Restart starts it
// again.
func (s *Server) Kill() error {
	if s.killed {
		return nil
	}
	// Suspend all processes first: one that saw another die would shut down in an
	// orderly way.
	list, err := s.hold()
	if err != nil {
		return err
	}
	// Children first, and then their parent, by which they were found.
	for _, pid := range append(list[1:], list[0]) {
		if e := syscall.Kill(pid, syscall.SIGKILL); e != nil {
			err = errors.Join(err, fmt.Errorf("kill process %d: %w", pid, e))
		}
	}
	<-s.ended
	s.killed = true
	for end := time.Now().Add(serverTimeout); len(living(list)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("processes %v survive SIGKILL", living(list))
		}
	}
	return err
}

// Restart starts a killed server again, on the same port.
func (s *Server) Restart() error { return s.launch() }

// Freeze suspends all processes of the server (SIGSTOP): its connections stay open,
// and it sends nothing. Thaw resumes the processes.
func (s *Server) Freeze() error {
	_, err := s.hold()
	return err
}

// Thaw ends Freeze.
func (s *Server) Thaw() error {
	list, err := s.processes()
	for _, pid := range list {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	return err
}

// hold suspends all processes of the server and returns their ids.
func (s *Server) hold() ([]int, error) {
	// The parent first, so that it starts no more children.
	if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	list, err := s.processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range list {
		// A child may have ended. Its id is not reused: the suspended parent cannot reap it.
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop process %d: %w", pid, err)
		}
	}
	return list, nil
}

// processes returns the ids of the server's processes, beginning with the parent of
// all others. It searches /proc, because each child leads its own process group.
func (s *Server) processes() ([]int, error) {
	list := []int{s.process.Process.Pid}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		state, parent := readStat(name)
		if parent != list[0] || state == 'Z' {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		list = append(list, pid)
	}
	return list, nil
}

// living returns those of some processes that have not ended. A zombie has ended,
// even if no process ever reaps it.
func living(pids []int) (list []int) {
	for _, pid := range pids {
		if state, _ := readStat(fmt.Sprintf("/proc/%d/stat", pid)); state != 0 && state != 'Z' {
			list = append(list, pid)
		}
	}
	return list
}

// readStat reads a process's state and its parent; 0 if it is gone.
func readStat(name string) (state byte, parent int) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, 0
	}
	// "pid (name) state parent ...", and the name may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}

// removeMemory removes the segment of System V shared memory that a killed server
// has left, by which a new one would detect that processes of the old one live. The
// segment's id is at the end of a line of the lock file.
func (s *Server) removeMemory() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return fmt.Errorf("%d lines in postmaster.pid", len(lines))
	}
	var key, id uintptr
	if _, err := fmt.Sscan(lines[6], &key, &id); err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	const remove = 0 // IPC_RMID
	if _, _, e := syscall.Syscall(syscall.SYS_SHMCTL, id, remove, 0); e != 0 {
		return fmt.Errorf("remove shared memory %d: %w", id, e)
	}
	return nil
}
