package keys_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

const day = 24 * time.Hour

// quarterly is the default schedule.
var quarterly = keys.Schedule{
	Lifetime: 90 * day, Lead: 7 * day, MaxAge: time.Hour, Retention: 66 * time.Minute, Algorithms: keys.SigningAlgorithms,
}

// record returns a key record with a number, and without key material.
func record(id grant.KeyID, p keys.Purpose, activeAt grant.Instant) keys.Stored {
	return keys.Stored{ID: id, Purpose: p, CreatedAt: frozenAt, ActiveAt: activeAt}
}

func TestPhasesOverTime(t *testing.T) {
	second, third := frozenAt.Add(90*day), frozenAt.Add(180*day)
	for _, p := range []keys.Purpose{keys.ES256, keys.EdDSA, keys.RS256, keys.MAC, keys.Seal} {
		// The order of the records does not matter.
		line := keys.NewTimeline([]keys.Stored{record(3, p, third), record(1, p, frozenAt), record(2, p, second)})
		gone := keys.Retired
		if p.Signs() {
			gone = keys.Gone
		}
		for _, tt := range []struct {
			name string
			now  grant.Instant
			want [3]keys.Phase
		}{
			{"before the first, for a clock behind", 5, [3]keys.Phase{keys.Active, keys.Next, keys.Next}},
			{"at the first's instant", frozenAt, [3]keys.Phase{keys.Active, keys.Next, keys.Next}},
			{"a millisecond before the second's", second - 1, [3]keys.Phase{keys.Active, keys.Next, keys.Next}},
			{"at the second's", second, [3]keys.Phase{keys.Retired, keys.Active, keys.Next}},
			{"at the last moment that the first may be needed", second.Add(66 * time.Minute), [3]keys.Phase{keys.Retired, keys.Active, keys.Next}},
			{"a millisecond later", second.Add(66*time.Minute) + 1, [3]keys.Phase{gone, keys.Active, keys.Next}},
			{"at the third's", third, [3]keys.Phase{gone, keys.Retired, keys.Active}},
			{"long after", third.Add(3660 * day), [3]keys.Phase{gone, gone, keys.Active}},
		} {
			lives := line.Lives(tt.now, quarterly)
			var got [3]keys.Phase
			for i, l := range lives {
				if l.ID != grant.KeyID(i+1) || line.Phase(l.ID, tt.now, quarterly) != l.Phase {
					t.Fatalf("%s %s: %+v, and Phase says %s", p, tt.name, lives, line.Phase(l.ID, tt.now, quarterly))
				}
				got[i] = l.Phase
			}
			if got != tt.want {
				t.Errorf("%s %s: %v, want %v", p, tt.name, got, tt.want)
			}
		}
		if got := line.Phase(9, frozenAt, quarterly); got != "" {
			t.Errorf("an unknown key is %q", got)
		}
	}
}

func TestEndsOfPhases(t *testing.T) {
	second := frozenAt.Add(90 * day)
	for _, tt := range []struct {
		name  string
		p     keys.Purpose
		now   grant.Instant
		first grant.Instant // the end of the first key's phase
		last  grant.Instant // and of the second's
	}{
		{"next is until its use, active until the next", keys.ES256, frozenAt, second, second},
		{"retired is until it is gone, the last one has no end", keys.ES256, second, second.Add(66 * time.Minute), 0},
		{"gone has no end", keys.ES256, second.Add(67 * time.Minute), 0, 0},
		{"a retired MAC key has no end", keys.MAC, second, 0, 0},
	} {
		line := keys.NewTimeline([]keys.Stored{record(1, tt.p, frozenAt), record(2, tt.p, second)})
		if l := line.Lives(tt.now, quarterly); l[0].EndsAt != tt.first || l[1].EndsAt != tt.last {
			t.Errorf("%s: %d and %d, want %d and %d", tt.name, l[0].EndsAt, l[1].EndsAt, tt.first, tt.last)
		}
	}
}

func TestOfTwoKeysOfOneInstantTheLargerIDIsUsed(t *testing.T) {
	for _, records := range [][]keys.Stored{
		{record(1, keys.ES256, frozenAt), record(2, keys.ES256, frozenAt)},
		{record(2, keys.ES256, frozenAt), record(1, keys.ES256, frozenAt)},
	} {
		line := keys.NewTimeline(records)
		if one, two := line.Phase(1, frozenAt, quarterly), line.Phase(2, frozenAt, quarterly); one != keys.Retired || two != keys.Active {
			t.Errorf("%s and %s", one, two)
		}
	}
}

func TestDue(t *testing.T) {
	only := quarterly
	only.Algorithms = []keys.Purpose{keys.ES256}
	const ahead = time.Hour + 10*time.Second // notice for a successor key that is created late
	for _, tt := range []struct {
		name  string
		there []time.Duration // start of use of the existing keys
		now   time.Duration
		want  []time.Duration // start of use of their successor keys
	}{
		{"young", []time.Duration{0}, 83*day - time.Millisecond, nil},
		{"at the lead", []time.Duration{0}, 83 * day, []time.Duration{90 * day}},
		{"its follower is there", []time.Duration{0, 90 * day}, 83 * day, nil},
		{"its follower is there, and earlier", []time.Duration{0, 20 * day}, 83 * day, nil},
		{"the follower is due", []time.Duration{0, 90 * day}, 173 * day, []time.Duration{180 * day}},
		{"nobody looked until shortly before the end", []time.Duration{0}, 90*day - time.Minute, []time.Duration{90*day - time.Minute + ahead}},
		{"nobody looked until long after the end", []time.Duration{0}, 500 * day, []time.Duration{500*day + ahead}},
		{"an operator planned one after the end", []time.Duration{0, 100 * day}, 83 * day, []time.Duration{90 * day}},
		{"a clock was wrong and made one far ahead", []time.Duration{0, 9999 * day}, 83 * day, []time.Duration{90 * day}},
		{"the clock is behind every key", []time.Duration{0, 90 * day}, -9999 * day, nil},
		{"one is used before a late follower could be", []time.Duration{0, 90*day + time.Minute}, 90 * day, nil},
	} {
		records := []keys.Stored{record(1, keys.Seal, frozenAt.Add(tt.now)), record(2, keys.MAC, frozenAt.Add(tt.now)), record(3, keys.Audit, frozenAt.Add(tt.now))}
		for i, d := range tt.there {
			records = append(records, record(grant.KeyID(10+i), keys.ES256, frozenAt.Add(d)))
		}
		var want []keys.Successor
		for _, d := range tt.want {
			want = append(want, keys.Successor{Purpose: keys.ES256, ActiveAt: frozenAt.Add(d)})
		}
		if got := keys.NewTimeline(records).Due(frozenAt.Add(tt.now), only); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}

func TestEveryPurposeRotatesButThePepper(t *testing.T) {
	all := []keys.Purpose{keys.MAC, keys.Seal, keys.Audit, keys.Pepper, keys.ES256, keys.EdDSA, keys.RS256}
	var records []keys.Stored
	for i, p := range all {
		records = append(records, record(grant.KeyID(i+1), p, frozenAt))
	}
	late := frozenAt.Add(365 * day)
	s := quarterly
	s.MaxSkew = 2 * time.Second
	// No copies are kept of keys that are not published, so their successor keys need less
	// notice.
	soon, later := late+12_000, late.Add(time.Hour)+12_000
	want := []keys.Successor{{keys.MAC, soon}, {keys.Seal, soon}, {keys.Audit, soon}, {keys.ES256, later}, {keys.EdDSA, later}, {keys.RS256, later}}
	if got := keys.NewTimeline(records).Due(late, s); !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v", got, want)
	}
	s.Lifetime = 0
	if got := keys.NewTimeline(records).Due(late, s); len(got) != 0 {
		t.Errorf("without a lifetime: %v", got)
	}
	// The first key of a purpose is used at once, whatever the lifetime.
	want = []keys.Successor{{keys.EdDSA, late}, {keys.RS256, late}}
	if got := keys.NewTimeline(records[:5]).Due(late, s); !slices.Equal(got, want) {
		t.Errorf("where there are none: %v, want %v", got, want)
	}
}

// Nodes poll at times, operators rotate keys, and sometimes all nodes are down. Still, no
// verifier meets a key that its key set cannot have, and no key is deleted while its
// tokens are valid.
func TestKeysArePublishedBeforeUseAndKeptAfterIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Second
		}
		s := keys.Schedule{MaxAge: seconds("max age", 1, 100), MaxSkew: seconds("skew", 0, 10), Algorithms: []keys.Purpose{keys.ES256}}
		s.Lead = s.MaxAge + s.MaxSkew + 15*time.Second + seconds("more lead", 0, 200)
		s.Lifetime = max(s.Lead/10, seconds("lifetime", 1, 400))
		alive := seconds("token lifetime", 1, 300)
		s.Retention = alive + s.MaxAge + 2*s.MaxSkew + time.Minute
		published := map[grant.KeyID]grant.Instant{}
		used := map[grant.KeyID]grant.Instant{} // when something was last signed
		records := []keys.Stored{record(1, keys.MAC, frozenAt), record(2, keys.Seal, frozenAt), record(3, keys.ES256, frozenAt), record(4, keys.Audit, frozenAt)}
		now, steady := frozenAt, frozenAt // steady: since when a node polls every second
		planned := 0
		add := func(p keys.Purpose, activeAt grant.Instant) {
			records = append(records, record(grant.KeyID(len(records)+1), p, activeAt))
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 30).Draw(t, "what happens") {
			case 0:
				now = now.Add(seconds("all are off", 2, 2000))
				steady = now
			case 1:
				planned++
				add(keys.ES256, now.Add(s.Notice(keys.ES256)+seconds("planned", 0, 1000)))
			default:
				now = now.Add(time.Second)
			}
			line := keys.NewTimeline(records)
			due := line.Due(now, s)
			for _, f := range due {
				if f.ActiveAt < now.Add(s.Notice(f.Purpose)) {
					t.Fatalf("a %s key is used %s after it was made", f.Purpose, f.ActiveAt.Since(now))
				}
				add(f.Purpose, f.ActiveAt)
			}
			line = keys.NewTimeline(records)
			if again := line.Due(now, s); len(again) != 0 {
				t.Fatalf("after %d successor keys were added, %d more are due", len(due), len(again))
			}
			// The clocks of nodes differ, and a node has a new key after at most seven
			// seconds.
			slow, fast := now.Add(-s.MaxSkew), now.Add(s.MaxSkew)
			waiting := 0
			for _, r := range records {
				if _, there := published[r.ID]; !there && r.ID != 3 {
					published[r.ID] = now.Add(7 * time.Second)
				}
				if r.Purpose != keys.ES256 {
					continue
				}
				if line.Phase(r.ID, slow, s) == keys.Active {
					used[r.ID] = now
				}
				switch line.Phase(r.ID, fast, s) {
				case keys.Active:
					// A verifier's copy of the set may be as old as this.
					if published[r.ID] > now.Add(-s.MaxAge) {
						t.Fatalf("key %s is used %s after all nodes publish it", r.ID, now.Since(published[r.ID]))
					}
					used[r.ID] = now
					if age := now.Since(max(r.ActiveAt, steady)); age > s.Lifetime+s.Notice(keys.ES256)+time.Second {
						t.Fatalf("key %s is used for %s", r.ID, age)
					}
				case keys.Next:
					waiting++
				case keys.Gone:
					if at, was := used[r.ID]; was && now <= at.Add(alive+s.MaxAge) {
						t.Fatalf("key %s is gone, and what it signed %s ago is alive", r.ID, now.Since(at))
					}
				}
			}
			if most := int(s.Lead/s.Lifetime) + 2*planned + 2; waiting > most {
				t.Fatalf("%d keys wait for their use, and %d should at most", waiting, most)
			}
		}
	})
}

// Client ids of self-registered clients are valid for a year after their key.
func TestKeysOfRegistrations(t *testing.T) {
	s := quarterly
	if slices.Contains(s.Rotating(), keys.Registration) {
		t.Error("a key is due although clients may not register themselves")
	}
	s.Registrations = true
	if !slices.Contains(s.Rotating(), keys.Registration) {
		t.Error("no key is due although clients may register themselves")
	}
	next := frozenAt.Add(90 * day)
	line := keys.NewTimeline([]keys.Stored{record(1, keys.Registration, frozenAt), record(2, keys.Registration, next)})
	for now, want := range map[grant.Instant]keys.Phase{frozenAt: keys.Active, next: keys.Retired, next.Add(365 * day): keys.Retired, next.Add(366 * day): keys.Gone} {
		if got := line.Phase(1, now, s); got != want || len(line.Lives(now, s)) != 2 {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
