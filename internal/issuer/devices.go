package issuer

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// DeviceLifetime is how long a user has to enter a code and to answer, and
// DeviceInterval how long a device waits between polls (RFC 8628 section 3.2).
const (
	DeviceLifetime = 10 * time.Minute
	DeviceInterval = 5 * time.Second
)

// Limits of the device codes that one node has open: issued, and not yet decided.
const (
	maxDevices = 100_000
	// A public client has at most maxDevicesOfClient open codes. At that limit, each
	// network may still have devicesBeyond of its codes, so that no attacker blocks it.
	maxDevicesOfClient = 1_000
	devicesBeyond      = 2
)

// Limits of wrong user codes. A code of n letters is one of 20^n. See Devices.letters.
const (
	guessesOfSubject = 10  // an hour
	guessesOfNetwork = 100 // an hour; of subjects with a wrong code alone
	yearly           = 365 * 24
	foundInAYear     = 0.01 // how many open codes may be guessed in a year
)

// ErrManyDevices means that too many device codes are open: the device must retry later.
var ErrManyDevices = fmt.Errorf("%w: too many open device codes", oauth.ErrTooManyRequests)

// Devices counts the open device codes, polls and wrong user codes of one node, in
// bounded memory. The zero value is ready; it is safe for concurrent use.
type Devices struct {
	mu         sync.Mutex
	ofNetwork  int // open codes that one network may have; 0: no limit
	waiting    map[store.DocumentKey]waiting
	inOrder    []store.DocumentKey // keys of waiting and of decided codes, by expiry
	first      int                 // index of the first of inOrder that may be waiting
	reserved   int                 // codes that are being stored
	networks   map[netip.Prefix]int
	clients    map[string]int
	ofClientAt map[clientAt]int
	polls      [2]map[store.DocumentKey]poll // young and old

	subjects, guessers overload.Limiter[any]
	guesses            [2]int // wrong codes in this hour, and in the one before
	hour               int64
}

type clientAt struct {
	client  string
	network netip.Prefix
}

// waiting is an open code.
type waiting struct {
	until grant.Instant
	clientAt
}

// SetLimit changes how many open codes one network may have; 0: no limit.
func (d *Devices) SetLimit(ofNetwork int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ofNetwork = ofNetwork
}

// An opening is a device code that is being stored.
type opening struct {
	of      *Devices
	letters int // of its user code
	waiting
}

// open reserves a code of a client for a network, or returns ErrManyDevices. The caller
// calls settle once the code is stored or could not be.
func (d *Devices) open(now grant.Instant, network netip.Prefix, client string) (*opening, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(now)
	at := clientAt{client, network}
	switch {
	case len(d.waiting)+d.reserved >= maxDevices,
		network.IsValid() && d.ofNetwork > 0 && d.networks[network] >= d.ofNetwork,
		network.IsValid() && d.clients[client] >= maxDevicesOfClient && d.ofClientAt[at] >= devicesBeyond:
		return nil, ErrManyDevices
	}
	if d.waiting == nil {
		d.waiting, d.networks, d.clients, d.ofClientAt = map[store.DocumentKey]waiting{}, map[netip.Prefix]int{}, map[string]int{}, map[clientAt]int{}
	}
	d.reserved++
	d.count(at, 1)
	return &opening{d, d.letters(now), waiting{now.Add(DeviceLifetime), at}}, nil
}

// settle counts the code as waiting once it is stored. With an error, the code was not
// stored, and settle frees its reservation.
func (o *opening) settle(key store.DocumentKey, err error) {
	d := o.of
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
	if err != nil {
		d.count(o.clientAt, -1)
		return
	}
	d.waiting[key] = o.waiting
	d.inOrder = append(d.inOrder, key)
}

func (d *Devices) end(key store.DocumentKey) {
	if w, ok := d.waiting[key]; ok {
		delete(d.waiting, key)
		d.count(w.clientAt, -1)
	}
}

// forget removes expired codes from the counts, and codes that were issued before the
// clock was set back.
func (d *Devices) forget(now grant.Instant) {
	for ; d.first < len(d.inOrder); d.first++ {
		key := d.inOrder[d.first]
		if w, ok := d.waiting[key]; ok && now < w.until && w.until <= now.Add(DeviceLifetime) {
			break
		}
		d.end(key)
	}
	if d.first > len(d.inOrder)/2 {
		d.inOrder, d.first = append([]store.DocumentKey(nil), d.inOrder[d.first:]...), 0
	}
}

func (d *Devices) count(at clientAt, n int) {
	add(d.networks, at.network, n)
	add(d.clients, at.client, n)
	add(d.ofClientAt, at, n)
}

func add[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// A poll is the last poll of a device.
type poll struct {
	at       grant.Instant
	interval time.Duration
	slow     bool // it was answered slow_down
}

// Two polls within samePoll are one: golang.org/x/oauth2 tries two forms of
// authentication. Clocks and networks may shorten an interval by earlyPoll.
const (
	samePoll  = time.Second
	earlyPoll = 500 * time.Millisecond
	maxPolls  = 50_000 // in each of two generations
)

// tooSoon counts the poll of a device, and reports whether the device must slow down
// (RFC 8628 section 3.5): its interval then grows by five seconds.
func (d *Devices) tooSoon(key store.DocumentKey, now grant.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, known := d.polls[0][key]
	if !known {
		p, known = d.polls[1][key]
	}
	since := now.Since(p.at)
	switch {
	case !known:
		p.interval = DeviceInterval
	case since >= 0 && since < samePoll:
		return p.slow
	default:
		if p.slow = since >= 0 && since < p.interval-earlyPoll; p.slow {
			p.interval = min(p.interval+DeviceInterval, time.Minute)
		}
	}
	p.at = now
	if d.polls[0] == nil || len(d.polls[0]) >= maxPolls {
		d.polls[1], d.polls[0] = d.polls[0], map[store.DocumentKey]poll{}
	}
	d.polls[0][key] = p
	return p.slow
}

// Guess counts a user code as wrong before the caller looks it up, so that concurrent
// guesses do not all pass. If the code turns out to be right, the caller calls right, which
// takes the count back. Guess reports false if the subject or the network has entered too
// many wrong codes. The limit of the network does not apply to a subject that has entered
// none, so that nobody can close the page for others.
func (d *Devices) Guess(now grant.Instant, subject string, network netip.Prefix) (right func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subjects.Change(overload.Limit{Burst: guessesOfSubject, Every: time.Hour / guessesOfSubject})
	d.guessers.Change(overload.Limit{Burst: guessesOfNetwork, Every: time.Hour / guessesOfNetwork})
	at := now.Time()
	first := d.subjects.WaitFor(subject, guessesOfSubject, at) == 0
	if d.subjects.Wait(subject, at) > 0 || !first && network.IsValid() && d.guessers.Wait(network, at) > 0 {
		return nil, false
	}
	d.subjects.Add(subject, at)
	if network.IsValid() {
		d.guessers.Add(network, at)
	}
	d.turn(now)
	d.guesses[0]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subjects.GiveBack(subject, 1)
		d.guessers.GiveBack(network, 1)
		d.guesses[0] = max(0, d.guesses[0]-1)
	}, true
}

// turn starts a new hour of guesses, if now is in one.
func (d *Devices) turn(now grant.Instant) {
	switch hour := int64(now) / time.Hour.Milliseconds(); hour {
	case d.hour:
	case d.hour + 1:
		d.hour, d.guesses = hour, [2]int{0, d.guesses[0]}
	default:
		d.hour, d.guesses = hour, [2]int{}
	}
}

// letters returns how many letters a new user code has: the fewest with which guesses at
// the present rate find fewer than foundInAYear open codes in a year.
func (d *Devices) letters(now grant.Instant) int {
	d.turn(now)
	return lettersFor(d.guesses[0]+d.guesses[1], len(d.waiting)+1)
}

func lettersFor(guesses, open int) int {
	n := oauth.MinUserCode
	for n < oauth.MaxUserCode && Found(guesses*yearly, open, n) >= foundInAYear {
		n++
	}
	return n
}

// Found returns how many open codes a number of guesses finds on average, if each code
// has that many letters.
func Found(guesses, open, letters int) float64 {
	return float64(guesses) * float64(open) / math.Pow(float64(len(oauth.UserLetters)), float64(letters))
}
