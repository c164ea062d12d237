package audit

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

const (
	segmentSize = 64 << 20
	segmentAge  = 24 * time.Hour
)

// write appends all events to the log, or none of them.
func (d *directory) write(events []Event, by *author, size int64) (err error) {
	if err := d.open(); err != nil {
		return err
	}
	if err := d.lock.take(syscall.LOCK_EX); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.lock.release()) }()
	if err := d.seek(); err != nil {
		d.forget()
		return err
	}
	if d.full(size, by.now) {
		if err := d.begin(by); err != nil {
			return err
		}
	}
	t, text := d.tail, d.text[:0]
	for i := range events {
		text = t.follow(text, &events[i], by)
	}
	if cap(text) <= maxKept {
		d.text = text
	}
	return d.append(text, t)
}

// maxKept limits the buffer that a writer keeps for its next lines, in bytes.
const maxKept = 256 << 10

// follow appends the line that follows t to text, and moves t on.
func (t *tail) follow(text []byte, e *Event, by *author) []byte {
	begin := len(text)
	text = appendLine(text, e, t.seq+1, t.hash, by)
	t.seq++
	t.hash = hashLine(text[begin : len(text)-1])
	return text
}

// full reports whether the next line must begin a segment. A segment that a killed
// process has left is not appended to: its last bytes are evidence.
func (d *directory) full(size int64, now time.Time) bool {
	t := &d.tail
	return d.file == nil || t.size == 0 || t.torn > 0 || t.damaged != nil || t.size >= size ||
		now.Sub(t.began) >= segmentAge || now.Before(t.began.Add(-segmentAge))
}

// begin begins a segment. The one before is durable then: it is not opened for
// writing again.
func (d *directory) begin(by *author) error {
	t := d.tail
	detail := segmentDetail{chain: t.chain, torn: t.torn}
	number := t.segment.number + 1
	if d.file != nil && t.size == 0 {
		number-- // a process was killed before it wrote the first line
	}
	if t.damaged != nil {
		t.seq, t.hash, detail = 0, Hash{}, segmentDetail{damage: t.damaged.Error()}
	}
	if detail.chain == "" {
		var id [8]byte
		rand.Read(id[:])
		detail.chain = hex.EncodeToString(id[:])
	}
	if d.file != nil {
		if err := d.file.Sync(); err != nil {
			return err
		}
	}
	s := segment{segmentPath(d.path, number), number}
	f, err := d.create(filepath.Base(s.path), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	if err := syncDirectory(d.path); err != nil {
		return errors.Join(err, f.Close())
	}
	d.forget()
	d.file, d.tail = f, tail{segment: s, seq: t.seq, hash: t.hash, chain: detail.chain, began: stamp(by.now)}
	t = d.tail
	return d.append(t.follow(nil, &Event{Name: Segment, Time: by.now, Detail: detail.String()}, by), t)
}

// append writes text, whose last line is that of t. It truncates what a failed
// write has left: no reader has used it.
func (d *directory) append(text []byte, t tail) error {
	n, err := d.file.Write(text)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, d.file.Truncate(d.tail.size))
		}
		d.forget()
		return err
	}
	t.size = d.tail.size + int64(n)
	d.tail = t
	return nil
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// A segmentDetail is the detail of the first line of a segment.
type segmentDetail struct {
	chain  string
	torn   int64  // bytes of an unfinished line at the end of the segment before
	damage string // why the chain before could not be continued
}

const (
	detailChain   = "chain "
	detailTorn    = ", after %d bytes of an unfinished line"
	detailDamaged = ", a new one: "
)

func (d segmentDetail) String() string {
	text := detailChain + d.chain
	if d.torn > 0 {
		text += fmt.Sprintf(detailTorn, d.torn)
	}
	if d.damage != "" {
		text += detailDamaged + d.damage
	}
	return text
}

var errNoSegment = errors.New("not that of a segment")

// parseSegmentDetail reads what String wrote.
func parseSegmentDetail(e Entry) (chain string, torn int64, err error) {
	text, ok := strings.CutPrefix(e.Detail, detailChain)
	if e.Event != Segment || !ok {
		return "", 0, errNoSegment
	}
	chain, rest, _ := strings.Cut(text, ",")
	if len(chain) != 16 {
		return "", 0, errNoSegment
	}
	if rest != "" {
		// It does not match where something else follows.
		fmt.Sscanf(","+rest, detailTorn, &torn)
	}
	return chain, torn, nil
}

// Lengths in bytes. No line is longer than maxLine: each byte of a text takes at
// most six.
const (
	maxText   = 320
	maxDetail = 1024
	maxLine   = 32 << 10
)

// timeFormat is RFC 3339 with milliseconds, in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// A Hash is that of a line.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote.
func ParseHash(s string) (h Hash, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, false
	}
	return Hash(b), true
}

// hashLine is the hash of a line without its line feed.
func hashLine(line []byte) Hash { return sha256.Sum256(line) }

// appendLine appends e as the line that follows the one with the hash prev,
// with its line feed, and with its MAC if ring is not nil and holds a key for
// it. It writes by hand what encoding/json would also escape,
// and more: nothing in a line moves a terminal's cursor or turns the direction
// of text (CWE-117).
func appendLine(b []byte, e *Event, seq uint64, prev Hash, by *author) []byte {
	begin := len(b)
	b = strconv.AppendUint(append(b, `{"seq":`...), seq, 10)
	b = appendTime(append(b, `,"time":"`...), e.Time)
	b = appendText(append(b, `","event":`...), string(e.Name), maxText)
	b = appendText(append(b, `,"outcome":`...), string(cmp.Or(e.Outcome, Success)), maxText)
	b = appendMember(b, `,"realm":`, e.Realm, maxText)
	b = appendMember(b, `,"client_id":`, e.ClientID, maxText)
	b = appendMember(b, `,"subject":`, e.Subject, maxText)
	b = appendMember(b, `,"grant_id":`, e.GrantID, maxText)
	if e.Generation != 0 {
		b = strconv.AppendUint(append(b, `,"generation":`...), uint64(e.Generation), 10)
	}
	b = appendMember(b, `,"request_id":`, e.RequestID, maxText)
	if e.RemoteIP.IsValid() {
		b = append(e.RemoteIP.WithZone("").AppendTo(append(b, `,"remote_ip":"`...)), '"')
	}
	b = appendMember(b, `,"actor":`, e.Actor, maxText)
	b = appendMember(b, `,"detail":`, e.Detail, maxDetail)
	b = appendMember(b, `,"node":`, by.node, maxText)
	if prev != (Hash{}) {
		b = append(hex.AppendEncode(append(b, `,"prev":"`...), prev[:]), '"')
	}
	if by.ring != nil && by.ring.HasAudit() {
		body := b[begin:]
		b = append(by.ring.AppendLineMAC(append(b, macMember...), body, grant.At(by.now)), '"')
	}
	return append(b, '}', '\n')
}

// An author is the process that writes lines. Its ring is nil if it has no
// key-encryption key.
type author struct {
	node string
	ring *keys.Ring
	now  time.Time
}

const macMember = `,"mac":"`

// cutMAC splits a line before its MAC, which is its last member. No text in a
// line holds macMember: quotes are escaped there.
func cutMAC(line []byte) (body, mac []byte, ok bool) {
	at := len(line) - len(`"}`) - keys.LineMACSize
	if at < len(macMember) || string(line[at-len(macMember):at]) != macMember || string(line[len(line)-len(`"}`):]) != `"}` {
		return line, nil, false
	}
	return line[:at-len(macMember)], line[at : len(line)-len(`"}`)], true
}

// appendTime appends t as timeFormat has it, which package time does slowly.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

func appendMember(b []byte, name, value string, most int) []byte {
	if value == "" {
		return b
	}
	return appendText(append(b, name...), value, most)
}

// appendText appends s in quotes, cut after most bytes.
func appendText(b []byte, s string, most int) []byte {
	b = append(b, '"')
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	for i := 0; i < len(s); {
		plain := i
		for plain < len(s) && s[plain] >= ' ' && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\' {
			plain++
		}
		if b = append(b, s[i:plain]...); plain == len(s) {
			break
		}
		i = plain
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 && cut && len(s)-i < utf8.UTFMax {
				break // the rest of a character that was cut
			}
			b = appendRune(b, r)
			i += size
			continue
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = appendEscape(b, rune(c))
		}
		i++
	}
	if cut {
		b = append(b, "..."...)
	}
	return append(b, '"')
}

func appendRune(b []byte, r rune) []byte {
	switch {
	case unicode.IsPrint(r):
		return utf8.AppendRune(b, r)
	case r > 0xffff:
		r -= 0x10000
		return appendEscape(appendEscape(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendEscape(b, r)
}

func appendEscape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// stamp is t as lines have it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// author returns the node and the keys of the lines that are written now.
func (w *writer) author() *author {
	by := &author{node: w.opt.Node, now: w.opt.Now()}
	if w.opt.Keys != nil {
		by.ring, _ = w.opt.Keys()
	}
	return by
}

// early reports whether the keys that make MACs are not loaded yet.
func (w *writer) early() bool {
	if w.opt.Keys == nil || w.ending {
		return false
	}
	_, ready := w.opt.Keys()
	return !ready
}
