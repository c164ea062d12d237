//go:build e2e

// Package overload gives the built server four times as much to do as it can.
//
// How to read the figures. The capacity is the rate at which 64 clients, which send each
// request as soon as the previous one is answered, are served. The requests are refreshes
// whose access token is signed with RSA, the most expensive kind of refresh. Server and
// generator have a processor each, so that the generator takes nothing from the server.
// Then requests fall due at four times that rate, at equal distances, whatever was
// answered before. They use persistent connections, as from clients with pools: a request
// that falls due while every connection waits for a response is not sent, and counts as
// unsent. Latency counts from when a request was due.
//
// Refusing costs too: the server must receive, decrypt and parse a request before it can
// refuse it. With unsigned tokens, a refusal costs about half of a refresh, and no server
// that answers every request at once could do most of its work at four times its
// capacity. There the queue slows the clients down; see docs/decisions/0018-overload.md.
package overload

import (
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/overload"
)

// The limits. The ordinary suite runs beside other tests, which take processor time from
// the server for moments or for a whole run. It therefore compares what the server serves
// per second of its own processor time. A run in which the server had much more or less
// processor time than before was not at four times its capacity: it is repeated with an
// adjusted rate.
const (
	recovery = 5 * time.Second
	// resident is the most memory that the server may take, in bytes, with up to
	// a thousand connections.
	resident = 384 << 20
	// attempts limits how often a run is repeated in the ordinary suite.
	attempts = 6
	// enough is how many refusals show the distribution of Retry-After.
	enough = 500
)

// bars returns the limits for a server that serves capacity requests a second. In the
// long form, the slowest response may take the longest wait in the queue and the time in
// which the server serves work requests, half a second at 500 a second: a request that
// has a slot may wait for the processor, and RSA makes some processors twice as slow as
// others.
func bars(capacity float64) (goodput float64, slowest time.Duration) {
	const work = 250
	if binary.Soak() {
		return 0.8, overload.MaxWait + time.Duration(work/capacity*float64(time.Second))
	}
	return 0.6, 2 * time.Second
}

// serverTime returns the processor time that the server has used.
func (w *world) serverTime() time.Duration {
	w.t.Helper()
	u, err := bench.ReadUsage(w.server.PID())
	if err != nil {
		w.t.Fatal(err)
	}
	return u.CPU
}

// A measure is a run with the processor time that the server used for it.
type measure struct {
	*tally
	cpu time.Duration
}

func (w *world) measured(lines []*line, rate float64, length time.Duration) measure {
	w.t.Helper()
	before := w.serverTime()
	t := run(lines, rate, length)
	return measure{t, w.serverTime() - before}
}

// each returns the requests served per second of the server's processor time.
func (m measure) each() float64 { return float64(m.sum(200)) / m.cpu.Seconds() }

// share returns the server's share of one processor.
func (m measure) share() float64 { return m.cpu.Seconds() / m.elapsed.Seconds() }

// capacity returns the rate that the server could have served in this run, if it serves
// each requests per second of its processor time.
func (m measure) capacity(each float64) float64 { return each * m.share() }

// onlyServedOrShed requires that every response is 200 or 503, with Retry-After
// from 1 to 8.
func (w *world) onlyServedOrShed(what string, r *tally) {
	w.t.Helper()
	if len(r.errors) > 0 {
		w.t.Errorf("%s: %v", what, r.errors)
	}
	for k := range r.answers {
		for status, n := range r.answers[k] {
			if status != 200 && status != 503 {
				w.t.Errorf("%s: %d requests of kind %d were answered %d", what, n, k, status)
			}
		}
	}
	for after, n := range r.retry {
		if after < 1 || after > 8 {
			w.t.Errorf("%s: %d responses have Retry-After %d", what, n, after)
		}
	}
}

func seconds(ordinary, soak int) time.Duration {
	return time.Duration(binary.Scaled(ordinary, soak)) * time.Second
}

// TestOP07_FourTimesItsCapacity loads a server with default limits. The ordinary suite,
// with fewer connections, has a shorter queue, so that some of the excess is still
// refused at once.
func TestOP07_FourTimesItsCapacity(t *testing.T) {
	s := binary.Start(t, t.TempDir(), "--code-lifetime", "10m", "--limits-waiting", strconv.Itoa(binary.Scaled(256, 0)))
	w := newWorld(t, s)
	lines := w.open(refresh, w.makeTokens(binary.Scaled(450, 1000)))
	// Sign access tokens only from now on, which keeps the preparations short.
	s.Run(t, "client", "update", s.ClientID, "--access-token-format", "jwt", "--signing-alg", "RS256")
	w.apart()
	capacity, each := w.recoversFrom(lines)
	w.servesRefreshesFirst(lines[:100], capacity, each)
}

// recoversFrom offers refreshes at four times the capacity, and then at half of it. It
// returns the capacity in requests per second, and how many requests the server serves
// per second of its processor time.
func (w *world) recoversFrom(lines []*line) (capacity, each float64) {
	t := w.t
	t.Helper()
	few := lines[:64]
	run(few, 0, time.Second/2)
	peak := w.measured(few, 0, seconds(1, 10))
	capacity = peak.rate(200)
	calm := w.measured(lines, capacity/2, seconds(1, 5))
	t.Logf("peak:  %s", peak)
	t.Logf("half:  %s", calm)

	over := w.overloaded(lines, peak)
	share, ofTime := over.rate(200)/capacity, over.each()/peak.each()
	t.Logf("goodput: %.2f of the peak; %.2f for each second of the processor", share, ofTime)
	goodput, slowest := bars(capacity)
	if !binary.Soak() {
		capacity = over.capacity(peak.each())
		share, slowest = ofTime, time.Duration(float64(slowest)/min(1, over.share()))
	}
	if share < goodput {
		t.Errorf("goodput is %.2f of the peak, want %.2f", share, goodput)
	}
	if p99 := over.all.Quantile(.99); p99 >= slowest {
		t.Errorf("the 99th percentile of the answers took %s, want less than %s", p99, slowest)
	}
	if over.sum(503) == 0 {
		t.Error("no request was refused: the server was not overloaded")
	}

	for began := time.Now(); ; {
		r := run(lines, capacity/2, time.Second/2)
		if normal := max(4*calm.all.Quantile(.99), 100*time.Millisecond); r.sum(503) == 0 && r.all.Quantile(.99) <= normal {
			t.Logf("as before %s after the load had fallen: %s", time.Since(began).Round(time.Millisecond), r)
			break
		}
		if time.Since(began) > recovery+seconds(10, 0) {
			t.Fatalf("%s after the load has fallen: %s", time.Since(began), r)
		}
		if !binary.Soak() { // half of the current capacity
			capacity = min(capacity, run(few, 0, time.Second/2).rate(200))
		}
	}
	use, err := bench.ReadUsage(w.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("resident memory: %d MB at most", use.Peak>>20)
	if use.Peak > resident {
		t.Errorf("the server took %d MB, want at most %d", use.Peak>>20, resident>>20)
	}
	return capacity, peak.each()
}

// overloaded offers refreshes at four times what the server can serve.
func (w *world) overloaded(lines []*line, peak measure) (over measure) {
	t := w.t
	t.Helper()
	retry, refused := map[int]int64{}, int64(0)
	for attempt, rate := 1, 4*peak.rate(200); ; attempt++ {
		over = w.measured(lines, rate, seconds(2, 120))
		times := rate / over.capacity(peak.each())
		t.Logf("%.1f times: %s", times, over)
		w.onlyServedOrShed("four times the capacity", over.tally)
		for after, n := range over.retry {
			retry[after] += n
		}
		refused += over.sum(503)
		if binary.Soak() || attempt == attempts || times > 3 && times < 5 && refused > enough {
			break
		}
		rate *= 4 / times
	}
	// Retry-After must spread the clients that were refused together.
	for after := 1; after <= 8; after++ {
		if n := retry[after]; n*16 < refused || n*5 > refused {
			t.Errorf("%d of %d refusals have Retry-After %d, want about an eighth", n, refused, after)
		}
	}
	return over
}

// servesRefreshesFirst redeems codes at three times the capacity, while clients with grants
// refresh at a third of it. Refreshes have priority.
func (w *world) servesRefreshesFirst(holders []*line, capacity, each float64) {
	t := w.t
	t.Helper()
	for attempt := 1; ; attempt++ {
		held, stormed, cpu := w.storm(holders, capacity)
		times := capacity / measure{held, cpu}.capacity(each)
		t.Logf("%.1f times: refreshes: %s", times/3, held)
		t.Logf("%.1f times: codes:     %s", times*3, stormed)
		if !binary.Soak() && attempt < attempts && (times < 0.7 || times > 1.4) {
			capacity /= times // the first rate may need more codes than were made
			continue
		}
		w.onlyServedOrShed("refreshes", held)
		w.onlyServedOrShed("codes", stormed)
		if served := float64(held.sum(200)) / float64(held.sum(200)+held.sum(503)); served < 0.95 {
			t.Errorf("%.3f of the refreshes were served, want nearly all", served)
		}
		if stormed.sum(200) == 0 {
			t.Error("no code was redeemed: logins starve")
		}
		if stormed.sum(503) == 0 {
			t.Error("every code was redeemed: the server was not overloaded")
		}
		// With little processor time, the time in a slot dominates both latencies. Then
		// only the refusals show the priority.
		const longestWait = time.Second / 2
		inSlot := time.Duration(64 / (capacity / times) * float64(time.Second))
		if quick, slow := held.served.Quantile(.5), stormed.served.Quantile(.5); inSlot < longestWait/2 && 2*quick > slow {
			t.Errorf("median latency %s of the refreshes, and %s of the codes", quick, slow)
		}
		return
	}
}

// storm returns the tallies of refreshes and codes, and the server's processor time.
func (w *world) storm(holders []*line, capacity float64) (held, stormed *tally, cpu time.Duration) {
	w.t.Helper()
	length := seconds(2, 20)
	const clients = 200
	codes := w.makeCodes(clients + int(2*capacity*length.Seconds()))
	w.codes = make(chan string, len(codes))
	for _, c := range codes[clients:] {
		w.codes <- c
	}
	lines := w.open(exchange, codes[:clients])
	defer func() {
		for _, l := range lines {
			l.conn.Close()
		}
	}()
	ended := make(chan *tally)
	before := w.serverTime()
	go func() { ended <- run(lines, 3*capacity, length) }()
	held = run(holders, capacity/3, length)
	stormed = <-ended
	return held, stormed, w.serverTime() - before
}
