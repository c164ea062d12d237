package pgtest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// echo is a server that sends back each line with its own name before it.
func echo(t *testing.T, name string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintf(conn, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

type client struct {
	*testing.T
	conn    net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, p *pgtest.Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{t, conn, bufio.NewReader(conn)}
}

func (c client) send(text string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.conn, text); err != nil {
		c.Fatal(err)
	}
}

func (c client) hears(want string) {
	c.Helper()
	c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := c.answers.ReadString('\n'); err != nil || got != want+"\n" {
		c.Errorf("heard %q, %v; want %q", got, err, want)
	}
}

func (c client) hearsNothing() {
	c.Helper()
	c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := c.answers.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Errorf("heard %q, %v over a line that is cut", b, err)
	}
}

func TestALineThatIsCutHoldsWhatIsSentUntilItIsHealed(t *testing.T) {
	t.Parallel()
	p, err := pgtest.StartProxy(echo(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	old := dial(t, p)
	old.send("a")
	old.hears("one a")
	p.Cut()
	late := dial(t, p) // the address accepts, and nobody is there
	late.send("b")
	old.send("c")
	late.hearsNothing()
	old.hearsNothing()
	p.Heal()
	late.hears("one b")
	old.hears("one c")
	// A sender that has gone is no reason to drop what it has sent.
	p.Cut()
	old.send("d")
	if err := old.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	old.hearsNothing()
	p.Heal()
	old.hears("one d")
	if _, err := old.answers.ReadByte(); err != io.EOF {
		t.Errorf("after the end: %v, want EOF", err)
	}
}

func TestALineThatIsSeveredIsReset(t *testing.T) {
	t.Parallel()
	p, err := pgtest.StartProxy(echo(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, held := dial(t, p), dial(t, p)
	for _, c := range []client{first, held} {
		c.send("a")
		c.hears("one a")
	}
	p.Cut()
	held.send("b")
	p.Sever()
	for _, c := range []client{first, held} {
		c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.answers.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that was severed: %v", err)
		}
	}
	p.Heal()
	p.Target(echo(t, "two"))
	c := dial(t, p)
	c.send("a")
	c.hears("two a")
}
