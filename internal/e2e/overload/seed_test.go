//go:build e2e

package overload

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// makeCodes requests codes from the admin API, over persistent connections.
func (w *world) makeCodes(n int) []string {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", w.server.AdminSocket)
		},
		MaxIdleConnsPerHost: 8,
	}}
	defer client.CloseIdleConnections()
	codes := make([]string, n)
	w.each(n, func(i int) error {
		body := fmt.Sprintf(`{"client_id":%q,"redirect_uri":%q,"subject":"u-%d"}`, w.server.ClientID, w.server.RedirectURI, i)
		resp, err := client.Post("http://admin/admin/v1/codes", "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var made struct{ Code, Detail string }
		if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
			return err
		}
		if codes[i] = made.Code; made.Code == "" {
			return fmt.Errorf("admin API: %s %s", resp.Status, made.Detail)
		}
		return nil
	})
	return codes
}

// makeTokens returns n refresh tokens, each from a code of its own.
func (w *world) makeTokens(n int) []string {
	w.t.Helper()
	codes, tokens := w.makeCodes(n), make([]string, n)
	client := &http.Client{Transport: w.server.Transport(w.t, "")}
	defer client.CloseIdleConnections()
	w.each(n, func(i int) error {
		a, err := w.server.Post(w.t.Context(), client, w.server.ExchangeForm(codes[i]))
		if err != nil {
			return err
		}
		if tokens[i] = a.RefreshToken; a.Status != http.StatusOK {
			return fmt.Errorf("code redeemed: %d %s", a.Status, a.Error)
		}
		return nil
	})
	return tokens
}

// each calls do n times, several calls concurrently.
func (w *world) each(n int, do func(int) error) {
	w.t.Helper()
	var doing sync.WaitGroup
	next := make(chan int)
	for range 16 {
		doing.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	doing.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// apart pins the server to one processor and this process to another until the end of the
// test. Otherwise the generator would take time from the server, which would look slower
// under load. With a single processor it does nothing.
func (w *world) apart() {
	w.t.Helper()
	var mask [16]uint64
	if err := affinity(syscall.SYS_SCHED_GETAFFINITY, 0, &mask); err != nil {
		w.t.Fatal(err)
	}
	all := mask
	var cpus []int
	for i := range len(mask) * 64 {
		if mask[i/64]&(1<<(i%64)) != 0 {
			cpus = append(cpus, i)
		}
	}
	if len(cpus) < 2 {
		return
	}
	one := func(cpu int) (m [16]uint64) {
		m[cpu/64] = 1 << (cpu % 64)
		return m
	}
	ours, theirs := one(cpus[0]), one(cpus[1])
	bind(w.t, w.server.PID(), theirs)
	bind(w.t, os.Getpid(), ours)
	w.t.Cleanup(func() { bind(w.t, os.Getpid(), all) })
}

// bind pins every thread of a process; a new thread inherits that.
func bind(t *testing.T, pid int, mask [16]uint64) {
	t.Helper()
	for range 2 { // a thread may have started during the first scan
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("no threads of process %d (%v)", pid, err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				t.Fatal(err)
			}
			if err := affinity(syscall.SYS_SCHED_SETAFFINITY, id, &mask); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
	}
}

func affinity(call uintptr, thread int, mask *[16]uint64) error {
	if _, _, errno := syscall.RawSyscall(call, uintptr(thread), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask))); errno != 0 {
		return errno
	}
	return nil
}
