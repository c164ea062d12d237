package server

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ProbeAgent is the prefix of a probe's User-Agent, a header that every proxy passes
// on; the probe's name follows.
const ProbeAgent = "mintage-doctor/"

const (
	probeLife = time.Minute
	maxProbes = 8
)

// Probes records how requests arrive that an administrator sends to the public address to
// test the proxies before it. It records only probes that the admin API has announced.
// The zero value is ready; it is safe for concurrent use.
type Probes struct {
	open atomic.Int32 // the length of list, read without the lock by every request
	mu   sync.Mutex
	list []*probe // the oldest first
}

type probe struct {
	name    string
	until   time.Time
	arrival Arrival
}

// An Arrival describes how the last request of a probe arrived: what proxies have made of
// it, without its content.
type Arrival struct {
	Arrived  int    `json:"arrived"` // times; what follows is about the last one
	Peer     string `json:"peer,omitempty"`
	Declared bool   `json:"peer_declared"`       // the peer is one of trusted_proxies
	RemoteIP string `json:"remote_ip,omitempty"` // the client's address, as determined by Proxies
	Secure   bool   `json:"secure"`              // it counts as sent over TLS
	TLS      bool   `json:"tls"`                 // it came to this server over TLS
	Protocol string `json:"protocol,omitempty"`
	Method   string `json:"method,omitempty"`
	Host     string `json:"host,omitempty"`
	Path     string `json:"path,omitempty"`
	// ForwardedFor counts the addresses in X-Forwarded-For, and ForwardedProto
	// lists the values of X-Forwarded-Proto.
	ForwardedFor   int      `json:"forwarded_for"`
	ForwardedProto []string `json:"forwarded_proto"`
	Forwarded      bool     `json:"forwarded"`     // it has the header of RFC 7239, which is not read
	Authorization  bool     `json:"authorization"` // the header has arrived
	ContentType    string   `json:"content_type,omitempty"`
	RequestID      string   `json:"request_id,omitempty"`
}

// Announce opens a probe and returns its name.
func (p *Probes) Announce(now time.Time) string {
	var b [16]byte
	rand.Read(b[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	if len(p.list) >= maxProbes {
		p.list = p.list[1:]
	}
	p.list = append(p.list, &probe{name: hex.EncodeToString(b[:]), until: now.Add(probeLife)})
	p.open.Store(int32(len(p.list)))
	return p.list[len(p.list)-1].name
}

// forget removes expired probes.
func (p *Probes) forget(now time.Time) {
	p.list = slices.DeleteFunc(p.list, func(x *probe) bool { return now.After(x.until) })
	p.open.Store(int32(len(p.list)))
}

// Arrival returns how a probe has arrived so far, or false if the name is unknown.
func (p *Probes) Arrival(name string, now time.Time) (Arrival, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	for _, x := range p.list {
		if x.name == name {
			return x.arrival, true
		}
	}
	return Arrival{}, false
}
