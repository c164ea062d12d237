package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mintage/mintage/internal/store"
)

// A State holds the values that are read when the metrics are gathered.
type State struct {
	Ready        bool
	DirectoryAge time.Duration
	ClockFault   bool
	Keys         []Key // those in use
	KeysDue      int
	Secrets      []Secret
	Certificate  time.Time // end of the public listener's; zero: none
	RestoreUntil time.Time // zero: no restore is in force
	// Requests that are processed, and requests that are queued.
	Working, Waiting int
	Load             store.Load

	CertOverdue, CertRefused bool

	AuditWritten, AuditLost         uint64
	AuditOverRate, AuditWithoutRoom uint64 // left out on purpose
	AuditFault                      bool

	Logouts []Logouts // of each realm
}

// Logouts are the logout tokens that a realm has to deliver.
type Logouts struct {
	Realm   string
	Failing int           // clients
	Waiting time.Duration // age of the oldest; 0: none
}

const (
	stateWorking = "working"
	stateWaiting = "waiting"

	leftOutRate  = "rate"
	leftOutSpace = "space"
)

// A Key is a key in use.
type Key struct {
	ID, Purpose string
	Age         time.Duration
	Expiry      time.Time // zero: unknown
}

// A Secret is a client's secret that expires.
type Secret struct {
	Realm, ClientID, ID string
	Expiry              time.Time
	Replaced            bool // another secret of the client expires later
}

// Watch sets the function that returns the state.
func (m *Metrics) Watch(read func() State) { m.state.Store(&read) }

type stateCollector struct{ m *Metrics }

func (s *shared) descriptions() map[string]*prometheus.Desc {
	all := map[string]*prometheus.Desc{}
	for _, f := range families {
		all[f.Name] = prometheus.NewDesc(f.Name, f.Help, s.labelsOf(f.Name), nil)
	}
	return all
}

// Describe sends nothing: the metrics depend on the state (unchecked collector).
func (stateCollector) Describe(chan<- *prometheus.Desc) {}

func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	descriptions := c.m.descriptions()
	send := func(name string, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(descriptions[name], kind, value, labels...)
	}
	gauge := func(name string, value float64, labels ...string) {
		send(name, prometheus.GaugeValue, value, labels...)
	}
	ofRealm := func(realm string, labels ...string) []string {
		if len(c.m.realms) > 0 {
			labels = append(labels, realm)
		}
		return labels
	}
	instant := func(name string, at time.Time, labels ...string) {
		if !at.IsZero() {
			gauge(name, float64(at.UnixMilli())/1000, labels...)
		}
	}
	for i, table := range sweptTables {
		if w := &c.m.swept[i]; w.at.Load() != nil {
			gauge(sweepLag, w.lag().Seconds(), table)
		}
	}
	read := c.m.state.Load()
	if read == nil {
		return
	}
	s := (*read)()
	gauge(ready, truth(s.Ready))
	gauge(directoryAge, s.DirectoryAge.Seconds())
	gauge(clockFault, truth(s.ClockFault))
	gauge(keysDue, float64(s.KeysDue))
	for _, k := range s.Keys {
		gauge(keyAge, k.Age.Seconds(), k.ID, k.Purpose)
		instant(keyExpiry, k.Expiry, k.ID, k.Purpose)
	}
	for _, secret := range s.Secrets {
		instant(secretExpiry, secret.Expiry, ofRealm(secret.Realm, secret.ClientID, secret.ID, strconv.FormatBool(secret.Replaced))...)
	}
	if instant(certificate, s.Certificate); !s.Certificate.IsZero() {
		gauge(certOverdue, truth(s.CertOverdue))
		gauge(certRefused, truth(s.CertRefused))
	}
	instant(restoreUntil, s.RestoreUntil)
	gauge(requestsNow, float64(s.Working), stateWorking)
	gauge(requestsNow, float64(s.Waiting), stateWaiting)
	gauge(storeQueue, float64(s.Load.Waiting))
	buckets := map[float64]uint64{}
	for i, n := range s.Load.Batches.Cumulative {
		buckets[float64(int(1)<<i)] = n
	}
	out <- prometheus.MustNewConstHistogram(descriptions[storeBatch], s.Load.Batches.Count, float64(s.Load.Batches.Operations), buckets)
	for _, l := range s.Logouts {
		gauge(logoutFailing, float64(l.Failing), ofRealm(l.Realm)...)
		gauge(logoutWaiting, l.Waiting.Seconds(), ofRealm(l.Realm)...)
	}
	send(auditWritten, prometheus.CounterValue, float64(s.AuditWritten))
	send(auditLost, prometheus.CounterValue, float64(s.AuditLost))
	gauge(auditFault, truth(s.AuditFault))
	send(auditLeftOut, prometheus.CounterValue, float64(s.AuditOverRate), leftOutRate)
	send(auditLeftOut, prometheus.CounterValue, float64(s.AuditWithoutRoom), leftOutSpace)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
