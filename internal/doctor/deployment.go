package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Levels of findings. A check that could not run does not count as passed.
const (
	levelOK      = "ok"
	levelNote    = "note" // left out, or nothing to check
	levelUnknown = "unknown"
	levelWarning = "warning"
	levelFault   = "fault"
)

// A Finding is one line of the report.
type Finding = adminapi.Finding

// findings are the findings of one check.
type findings []Finding

// add adds a finding. Like the methods below, it returns all findings of the check, so
// that the check can end with it.
func (f *findings) add(level, advice, format string, args ...any) findings {
	*f = append(*f, Finding{Level: level, Text: show.OneLine(fmt.Sprintf(format, args...)), Advice: advice})
	return *f
}

func (f *findings) ok(format string, args ...any) findings {
	return f.add(levelOK, "", format, args...)
}

func (f *findings) note(format string, args ...any) findings {
	return f.add(levelNote, "", format, args...)
}

func (f *findings) unknown(advice, format string, args ...any) findings {
	return f.add(levelUnknown, advice, format, args...)
}

func (f *findings) warn(advice, format string, args ...any) findings {
	return f.add(levelWarning, advice, format, args...)
}

func (f *findings) fault(advice, format string, args ...any) findings {
	return f.add(levelFault, advice, format, args...)
}

// denied reports whether err is about a permission that this process's user lacks, but the
// server's user may have, which is no fault of the deployment. If so, it adds a finding
// that names the server's user.
func (f *findings) denied(p *Deployment, err error) bool {
	if p.Server == "" || !errors.Is(err, fs.ErrPermission) {
		return false
	}
	f.unknown("run this as "+p.Server+" (sudo -u "+p.Server+")", "this user lacks the permission: %v", err)
	return true
}

// unless adds an ok finding, unless there is a worse one.
func (f *findings) unless(format string, args ...any) findings {
	if slices.ContainsFunc(*f, func(x Finding) bool { return x.Level != levelOK && x.Level != levelNote }) {
		return *f
	}
	return f.ok(format, args...)
}

// A Deployment is the input of the checks.
type Deployment struct {
	Config config.Config
	Realm  string
	Now    grant.Instant
	Dev    bool   // the server runs with --dev
	Beside bool   // the server examines itself, without reading the whole store
	Server string // the server's user, if the checks run as another user, who may lack permissions

	// The store, or why it cannot be used; its directory, with the last uses of
	// secrets; and one of Embedded and Database.
	Store    store.Store
	StoreErr error
	Changes  store.Changes
	Embedded *Embedded
	Database *Database
	// StoreFile is where an embedded store is, whether it opens or not.
	StoreFile string

	// The key-encryption key, or why it cannot be read; the path of its file; and
	// the schedule of the keys that it wraps.
	KEK      *keys.KEK
	KEKErr   error
	KEKFile  string
	Schedule keys.Schedule

	Demo Demo

	// Admin sends a request to the running server's admin API, and decodes the
	// answer into out.
	Admin func(ctx context.Context, method, path string, out any) error

	// For requests to the public address: an address to connect to instead of the one in
	// DNS, and a file with certificate authorities instead of the system's.
	Connect, CAFile string

	seen        *publicAnswer // set by the check of the public address, for later checks
	plainPort   string        // where http:// would be, if not at 80
	kernelClock func() (synchronised, known bool)
}

// An Embedded holds the functions of the embedded store that checks call.
type Embedded struct {
	TryWrite   func(context.Context) error
	Examine    func(context.Context) (store.FileCondition, error)
	QuickCheck func(context.Context) error // reads the whole file
}

// A Database holds the functions of a store in a database server that checks call.
type Database struct {
	TryWrite   func(context.Context) error
	Examine    func(context.Context) (store.ServerCondition, error)
	Nodes      func(context.Context) ([]store.Node, error)
	Unverified []string // hosts whose certificate is not verified
}

// A Demo describes the dev.json that serve --dev writes into the data directory.
type Demo struct {
	File     string
	ClientID string
	Err      error // why the file cannot be read; fs.ErrNotExist if there is none
}
