//go:build e2e

// Package overload gives the built server four times as much to do as it can.
//
// What the figures mean. The capacity is what the server answers to 64 clients
// who each send the next request as soon as they have an answer: refreshes whose
// access token is signed with RSA, which is the most that a refresh can cost.
// Server and generator have a processor each, so that the generator takes nothing
// from the server. Then requests fall due at equal distances at four times that
// rate, whatever was answered before. They come over kept connections, as from
// clients with pools: if each of them waits for an answer, what falls due is not
// sent, and counts as that. Latency counts from when a request was due.
//
// Refusing costs too: a request must be received, decrypted and read before it
// can be refused. With tokens that are not signed, a refusal costs about half
// of a refresh, and no server that answers every request at once could do most
// of its work at four times its capacity. There it is the queue that holds the
// clients back; see docs/decisions/0018-overload.md.
package overload

import (
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/overload"
)

// The bars. The ordinary suite runs beside other tests, which take the server's
// processor away for moments, or for the whole of a run. There, what the server
// serves is compared for each second in which it has had the processor, and a run in
// which it has had much more or less of it than the one before is no run at four
// times its capacity: it is repeated with a rate that is.
const (
	recovery = 5 * time.Second
	// resident is the most memory that the server may take, in bytes, with up to
	// a thousand connections.
	resident = 384 << 20
	// attempts limits how often a run is repeated in the ordinary suite.
	attempts = 6
	// enough refusals show how Retry-After is spread.
	enough = 500
)

// bars returns the bars for a server that serves capacity requests a second. In the
// long form, the slowest answer is the longest wait in the queue and the time in which
// the server serves work requests: a second at 500 a second. RSA alone makes some
// processors twice as slow as others, and what has a slot waits for it.
func bars(capacity float64) (goodput float64, slowest time.Duration) {
	const work = 250
	if binary.Soak() {
		return 0.8, overload.MaxWait + time.Duration(work/capacity*float64(time.Second))
	}
	return 0.6, 2 * time.Second
}

// serverTime is the processor time that the server has used.
func (w *world) serverTime() time.Duration {
	w.t.Helper()
	u, err := bench.ReadUsage(w.server.PID())
	if err != nil {
		w.t.Fatal(err)
	}
	return u.CPU
}

// A measure is a run, and the processor time that the server has used for it.
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

// each is how many were served for each second of the server's processor.
func (m measure) each() float64 { return float64(m.sum(200)) / m.cpu.Seconds() }

// share is how much of a processor the server has had.
func (m measure) share() float64 { return m.cpu.Seconds() / m.elapsed.Seconds() }

// capacity is what a server that serves so many for each second of its processor could
// have served in a second of the run.
func (m measure) capacity(each float64) float64 { return each * m.share() }

// onlyServedOrTurnedAway demands of every answer that it is one or the other.
func (w *world) onlyServedOrTurnedAway(what string, r *tally) {
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
			w.t.Errorf("%s: %d were told to come back after %d seconds", what, n, after)
		}
	}
}

func seconds(ordinary, soak int) time.Duration {
	return time.Duration(binary.Scaled(ordinary, soak)) * time.Second
}

// TestOP07_FourTimesItsCapacity loads a server whose limits are the default ones.
// In the ordinary suite, which has fewer connections, the queue is shorter, so
// that some of what is too much is refused at once all the same.
func TestOP07_FourTimesItsCapacity(t *testing.T) {
	s := binary.Start(t, t.TempDir(), "--code-lifetime", "10m", "--limits-waiting", strconv.Itoa(binary.Scaled(256, 0)))
	w := newWorld(t, s)
	lines := w.open(refresh, w.makeTokens(binary.Scaled(450, 1000)))
	// From now on: before, it would only make the preparations longer.
	s.Run(t, "client", "update", s.ClientID, "--access-token-format", "jwt", "--signing-alg", "RS256")
	w.apart()
	capacity, each := w.recoversFrom(lines)
	w.servesHoldersFirst(lines[:100], capacity, each)
}

// recoversFrom has refreshes fall due at four times the capacity, and then at
// half of it. It returns the capacity, in requests per second, and what the server
// serves for each second of its processor.
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
		t.Error("nobody was turned away: this was no overload")
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
		if !binary.Soak() { // half of what the server can do now
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

// overloaded has refreshes fall due at four times of what the server can do.
func (w *world) overloaded(lines []*line, peak measure) (over measure) {
	t := w.t
	t.Helper()
	retry, refused := map[int]int64{}, int64(0)
	for attempt, rate := 1, 4*peak.rate(200); ; attempt++ {
		over = w.measured(lines, rate, seconds(2, 120))
		times := rate / over.capacity(peak.each())
		t.Logf("%.1f times: %s", times, over)
		w.onlyServedOrTurnedAway("four times the capacity", over.tally)
		for after, n := range over.retry {
			retry[after] += n
		}
		refused += over.sum(503)
		if binary.Soak() || attempt == attempts || times > 3 && times < 5 && refused > enough {
			break
		}
		rate *= 4 / times
	}
	// Those who were turned away together come back apart.
	for after := 1; after <= 8; after++ {
		if n := retry[after]; n*16 < refused || n*5 > refused {
			t.Errorf("%d of %d were told to come back after %d seconds, want about an eighth", n, refused, after)
		}
	}
	return over
}

// servesHoldersFirst redeems codes at three times the capacity, while others
// refresh at a third of it.
func (w *world) servesHoldersFirst(holders []*line, capacity, each float64) {
	t := w.t
	t.Helper()
	for attempt := 1; ; attempt++ {
		held, stormed, cpu := w.storm(holders, capacity)
		times := capacity / measure{held, cpu}.capacity(each)
		t.Logf("%.1f times: refreshes: %s", times/3, held)
		t.Logf("%.1f times: codes:     %s", times*3, stormed)
		if !binary.Soak() && attempt < attempts && (times < 0.7 || times > 1.4) {
			capacity /= times // there may have been too few codes
			continue
		}
		w.onlyServedOrTurnedAway("refreshes", held)
		w.onlyServedOrTurnedAway("codes", stormed)
		if served := float64(held.sum(200)) / float64(held.sum(200)+held.sum(503)); served < 0.95 {
			t.Errorf("%.3f of the refreshes were served, want nearly all", served)
		}
		if stormed.sum(200) == 0 {
			t.Error("no code was redeemed: logins wait for ever")
		}
		if stormed.sum(503) == 0 {
			t.Error("every code was redeemed: this was no storm")
		}
		// With little of a processor, the time in a slot is most of both, and what was
		// turned away shows who goes first.
		const longestWait = time.Second / 2
		inSlot := time.Duration(64 / (capacity / times) * float64(time.Second))
		if quick, slow := held.served.Quantile(.5), stormed.served.Quantile(.5); inSlot < longestWait/2 && 2*quick > slow {
			t.Errorf("half of the refreshes are answered within %s, and of the codes within %s", quick, slow)
		}
		return
	}
}

// storm returns what became of refreshes and codes, and the server's processor time.
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
