package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func newAuditVerify(s *settings) *cobra.Command {
	var heads, absent []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Verify that the audit log was not changed",
		Long: `Verify the hash chain of the whole audit log, or of files of it that follow one
another. The command names the first broken place, with exit status 1. A line that
a killed process has not finished is no break.

If the store can be opened, the log is compared with the server's notes in it: how
far the log was, written each minute, and what retention has removed. A chain that
the store knows must be there; name one that was moved on purpose with --absent.
With the key-encryption key, the MAC of each line is verified. --head names hashes
that "mintage audit head" printed before, which the log must contain. Files that
are named are not compared with the store.

Without the store and --head, the removal of the last lines goes unnoticed, and so
does a rewritten log.`,
		Example: `  mintage audit verify --data /var/lib/mintage
  mintage audit verify --head 5f0c...
  mintage audit verify --absent 9f21c07be2a45d10
  mintage audit verify /archive/audit/*.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			v := &verification{check: audit.Check{Progress: newProgress(cmd.ErrOrStderr(), time.Now).verified}}
			for _, text := range heads {
				h, ok := audit.ParseHash(text)
				if !ok {
					return deployment.Usage(deployment.Hint(fmt.Errorf("--head: %q is no hash: 64 hexadecimal digits", text), "as printed by: mintage audit head"))
				}
				v.check.Anchors = append(v.check.Anchors, h)
			}
			if len(args) > 0 {
				v.verdict, v.err = v.check.VerifyFiles(args)
			} else {
				dir, cfg, err := s.auditDirectory()
				if err != nil {
					return err
				}
				v.absent = absent
				v.verify(cmd.Context(), cfg, dir)
			}
			err := v.judge(heads)
			return errors.Join(output(cmd, asJSON, v.view(err), func(w io.Writer) error { return v.text(w, err) }), err)
		},
	}
	cmd.Flags().StringArrayVar(&heads, "head", nil, "a hash that the log must contain; repeatable")
	cmd.Flags().StringArrayVar(&absent, "absent", nil, "a chain that was moved elsewhere on purpose; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A verification compares an audit log with the anchors in the store and with --head.
type verification struct {
	check    audit.Check
	verdict  audit.Verdict
	err      error
	anchors  []deployment.Anchor
	restores []grant.Restore
	dir      string
	alone    bool     // the store has one audit log: it serves one machine
	absent   []string // chains that --absent names
	unread   error    // why the store's anchors could not be read
	locked   error    // why the keys could not be opened
	compared bool     // with the store's anchor of this log
	notes    []string
}

// verify verifies the audit log in a directory, while a server may write to it. The store's
// record of its length is read before the log, because the log grows; the record of removed
// segments is read after the log, because a server writes it before it removes them.
func (v *verification) verify(ctx context.Context, cfg config.Config, dir string) {
	v.dir = dir
	v.readStore(ctx, cfg)
	v.verdict, v.err = v.check.Verify(dir)
	if v.unread != nil || v.verdict.Removed == 0 {
		return
	}
	st, err := deployment.OpenStore(ctx, cfg)
	if err != nil {
		v.anchors, v.unread = nil, err
		return
	}
	later, err := deployment.Anchors(ctx, st)
	if err = errors.Join(err, st.Close()); err != nil {
		v.anchors, v.unread = nil, err
	}
	for i := range v.anchors {
		for _, a := range later {
			if a.Chain == v.anchors[i].Chain {
				v.anchors[i].Removed = a.Removed
			}
		}
	}
}

// readStore reads anchors and keys. Without them, the chain alone is verified.
func (v *verification) readStore(ctx context.Context, cfg config.Config) {
	v.alone = cfg.Store == config.StoreSQLite
	st, err := deployment.OpenStore(ctx, cfg)
	if err == nil {
		var ch store.Changes
		if ch, err = st.Changes(ctx, 0); err == nil {
			v.restores = ch.Restores
			v.readKeys(cfg, ch.Keys)
			v.anchors, err = deployment.Anchors(ctx, st)
		}
		err = errors.Join(err, st.Close())
	}
	v.unread = err
	for _, a := range v.anchors {
		if h, ok := audit.ParseHash(a.Hash); ok {
			v.check.Anchors = append(v.check.Anchors, h)
		}
	}
}

func (v *verification) readKeys(cfg config.Config, records []keys.Stored) {
	kek, err := deployment.ReadKEK(cfg)
	if err == nil {
		v.check.Ring, err = keys.Open(kek, records)
	}
	if v.locked = err; err == nil && !v.check.Ring.HasAudit() {
		v.check.Ring, v.locked = nil, errors.New("the store has no key for them yet: the next start of a server makes it")
	}
}

// judge returns an error unless log, anchors and heads agree.
func (v *verification) judge(heads []string) error {
	v.notes = v.verdict.Notes
	none := errors.Is(v.err, audit.ErrNone)
	if v.err != nil && !none {
		return brokenAuditLog(v.err, v.verdict)
	}
	for _, text := range heads {
		h, _ := audit.ParseHash(text)
		if _, found := v.verdict.Anchors[h]; !found {
			return brokenAuditLog(fmt.Errorf("no record has the hash %s of --head: the log was cut off or rewritten, or retention has removed the record", text), v.verdict)
		}
	}
	known := false
	for _, a := range v.anchors {
		h, _ := audit.ParseHash(a.Hash)
		_, found := v.verdict.Anchors[h]
		switch {
		case a.Chain != v.verdict.Head.Chain && slices.Contains(v.absent, a.Chain):
			v.notes = append(v.notes, fmt.Sprintf("chain %s, of %d records until %s, is not here, as --absent says", a.Chain, a.Seq, show.Instant(a.At)))
		case a.Chain != v.verdict.Head.Chain && (v.alone || a.Of(v.dir)):
			return deployment.Hint(fmt.Errorf("the audit log is not intact: the store has a record of chain %s of %s (%d records until %s), which is missing here: it was removed, or written anew under another name", a.Chain, a.Node, a.Seq, show.Instant(a.At)),
				"keep the files as they are, and look for its copy; if it was moved elsewhere on purpose, or the store came from another machine: --absent "+a.Chain)
		case a.Chain != v.verdict.Head.Chain:
		case v.verdict.Removed > a.Removed && !v.restoredAfter(v.verdict.RemovedAt):
			return brokenAuditLog(fmt.Errorf("the records up to seq %d are missing, and by the store's record, the server has removed those up to seq %d: somebody else removed the others", v.verdict.Removed, a.Removed), v.verdict)
		case found || a.Seq <= v.verdict.Removed:
			known = true
		case a.Seq > v.verdict.Head.Seq:
			return brokenAuditLog(fmt.Errorf("the log ends with seq %d, and the store has recorded seq %d at %s: its end was cut off", v.verdict.Head.Seq, a.Seq, show.Instant(a.At)), v.verdict)
		default:
			return brokenAuditLog(fmt.Errorf("the record with seq %d is not the one that the store has recorded, of %s: the log was rewritten", a.Seq, show.Instant(a.At)), v.verdict)
		}
	}
	if none {
		return v.err // and the store has no record of one
	}
	v.compared = known
	if v.locked != nil {
		v.notes = append(v.notes, fmt.Sprintf("the macs of its lines were not verified: %v", v.locked))
	}
	switch {
	case v.dir == "":
		v.notes = append(v.notes, "the given files were not compared with the store, and their macs were not verified")
	case v.unread != nil:
		v.notes = append(v.notes, fmt.Sprintf("its end, its macs and what was removed were not compared with the store: %v", v.unread))
	case !known && len(heads) == 0:
		v.notes = append(v.notes, "its end was not compared: the store has no record of this log yet")
	}
	return nil
}

// restoredAfter reports whether the store was restored since an instant, from an earlier
// backup. The store then lacks what it recorded at that instant, and the lines of the log
// count instead, if they have MACs.
func (v *verification) restoredAfter(t time.Time) bool {
	at := grant.At(t)
	return v.verdict.MACs > 0 && slices.ContainsFunc(v.restores, func(r grant.Restore) bool { return r.Backup <= at && at <= r.At })
}

// brokenAuditLog adds advice to the error of an audit log that is not intact. A file
// that cannot be read says nothing about the log. The MAC of a line covers the hash of the
// line before, and thereby all lines before it. The chain alone shows nothing of the kind:
// anyone can chain changed lines again up to the place where it breaks.
func brokenAuditLog(err error, verified audit.Verdict) error {
	var unread *os.PathError
	b, broken := errors.AsType[*audit.Break](err)
	if !broken && (errors.As(err, &unread) || errors.Is(err, audit.ErrNone)) {
		return err
	}
	advice := "keep the files as they are, and compare them with a copy that was shipped or backed up"
	if broken && b.Line > 0 && verified.MACs > 0 {
		advice += "; everything up to the last record with a mac before this place is intact"
	}
	return deployment.Hint(fmt.Errorf("the audit log is not intact: %w", err), advice)
}

// text writes the verdict for people. err is nil if the audit log is intact.
func (v *verification) text(w io.Writer, err error) error {
	compared, macs, d := "", "", v.verdict
	if v.compared {
		compared = "with the store"
	}
	if d.MACs > 0 {
		macs = fmt.Sprintf("%d records, each by a key of the store", d.MACs)
	}
	if d.Records > 0 {
		if err := show.Fields(w, [][2]string{
			{"chain", d.Head.Chain}, {"segments", fmt.Sprint(d.Segments)}, {"records", fmt.Sprintf("%d (seq %d to %d)", d.Records, d.First.Seq, d.Last.Seq)},
			{"with a mac", macs}, {"from", when(&d.First.Time)}, {"until", when(&d.Last.Time)}, {"end compared", compared}, {"head", d.Head.Hash.String()},
		}); err != nil {
			return err
		}
	}
	for _, n := range v.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if err == nil {
		fmt.Fprintln(w, "the chain holds")
	}
	return nil
}

type verdictView struct {
	Holds    bool       `json:"holds"`
	Why      string     `json:"why,omitempty"`
	File     string     `json:"file,omitempty"`
	Line     int        `json:"line,omitempty"`
	Chain    string     `json:"chain"`
	Segments int        `json:"segments"`
	Records  uint64     `json:"records"`
	FirstSeq uint64     `json:"first_seq"`
	LastSeq  uint64     `json:"last_seq"`
	From     *time.Time `json:"from"`
	Until    *time.Time `json:"until"`
	Head     string     `json:"head"`
	Compared bool       `json:"compared_with_store"`
	MACs     uint64     `json:"macs"`
	Notes    []string   `json:"notes"`
}

func (v *verification) view(err error) verdictView {
	d := v.verdict
	out := verdictView{
		Holds: err == nil, Chain: d.Head.Chain, Segments: d.Segments, Records: d.Records, FirstSeq: d.First.Seq, LastSeq: d.Last.Seq,
		Head: d.Head.Hash.String(), Compared: v.compared, MACs: d.MACs, Notes: append([]string{}, v.notes...),
	}
	if d.Records > 0 {
		out.From, out.Until = &d.First.Time, &d.Last.Time
	}
	if err != nil {
		out.Why = strings.TrimPrefix(err.Error(), "the audit log is not intact: ")
	}
	if b, ok := errors.AsType[*audit.Break](err); ok {
		out.File, out.Line = b.File, b.Line
	}
	return out
}
