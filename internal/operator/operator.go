// Package operator holds the operators of a deployment, who use its console, with their
// roles, invitations and sessions. All are documents in the store, which every node reads
// at each request: a change applies to the next request.
package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// An Operator is a person who may use the console.
type Operator struct {
	Name      string        `json:"name"`            // of a built-in user, where users are built in
	Role      string        `json:"role"`            // auditor or admin
	Realm     string        `json:"realm,omitempty"` // realm to which the operator is confined, with its slash; "": none
	CreatedBy string        `json:"by"`
	CreatedAt grant.Instant `json:"created"`
	SeenAt    grant.Instant `json:"seen,omitempty"` // the last sign-in
}

// leads reports whether o is an admin of the deployment.
func (o Operator) leads() bool { return o.Role == Admin && o.Realm == "" }

// described returns the role, and where it is valid.
func (o Operator) described() string {
	if o.Realm == "" {
		return o.Role
	}
	return o.Role + " of the realm " + o.Realm[1:]
}

// Roles that an operator can have.
const (
	Auditor = "auditor"
	Admin   = "admin"
)

// maxOperators bounds the operators, which must fit into one document.
const maxOperators = 50

// An Error says why nothing was done.
type Error string

const (
	ErrUnknown   Error = "there is no such operator"
	ErrTaken     Error = "there is such an operator already"
	ErrLastAdmin Error = "this is the last admin: add another first"
	ErrFull      Error = "there are 50 operators, and no more are possible"
)

func (e Error) Error() string { return string(e) }

// ValidName reports whether s can be the name of an operator. It allows the characters of
// built-in usernames, which may be email addresses.
func ValidName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.Contains("._@+-", s[:1]) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._@+-") == ""
}

// operators are sorted by name.
const operators = store.List[Operator](store.DocumentOperators)

// List returns the operators, sorted by name.
func List(ctx context.Context, st store.Store) ([]Operator, error) { return operators.Read(ctx, st) }

// Find returns the operator with a name, or ErrUnknown.
func Find(ctx context.Context, st store.Store, name string) (Operator, error) {
	list, err := List(ctx, st)
	if err != nil {
		return Operator{}, err
	}
	if i, found := slices.BinarySearchFunc(list, name, byName); found {
		return list[i], nil
	}
	return Operator{}, ErrUnknown
}

func byName(o Operator, name string) int { return strings.Compare(o.Name, name) }

// About is the field About of events about operators. No client's id has a space.
const About = "console operators"

// Add adds an operator.
func Add(ctx context.Context, st store.Store, o Operator) error {
	return operators.Change(ctx, st, func(list []Operator) ([]Operator, []store.Event, error) {
		i, found := slices.BinarySearchFunc(list, o.Name, byName)
		switch {
		case found:
			return nil, nil, ErrTaken
		case len(list) >= maxOperators:
			return nil, nil, ErrFull
		}
		return slices.Insert(list, i, o), []store.Event{{At: o.CreatedAt, Name: store.EventOperatorAdded, About: About, Actor: o.CreatedBy, Detail: o.Name + ": " + o.described()}}, nil
	})
}

// Hold returns the operators, and documents to commit with a change that depends on them:
// the commit conflicts if the operators have changed since.
func Hold(ctx context.Context, st store.Store) ([]Operator, []store.Document, error) {
	return operators.Hold(ctx, st)
}

// Remove removes an operator, but not the last admin of the deployment who can sign in.
// absent returns the names of operators who cannot; Remove calls it after each read.
func Remove(ctx context.Context, st store.Store, name, actor string, now grant.Instant, absent func([]Operator) ([]string, error)) error {
	return operators.Change(ctx, st, func(list []Operator) ([]Operator, []store.Event, error) {
		i, found := slices.BinarySearchFunc(list, name, byName)
		if !found {
			return nil, nil, ErrUnknown
		}
		names, err := absent(list)
		if err != nil {
			return nil, nil, err
		}
		if Last(list, name, names) {
			return nil, nil, ErrLastAdmin
		}
		rest := slices.Delete(slices.Clone(list), i, i+1)
		return rest, []store.Event{{At: now, Name: store.EventOperatorRemoved, About: About, Actor: actor, Detail: fmt.Sprintf("%s: was %s", name, list[i].described())}}, nil
	})
}

// Last reports whether name is the last admin of the deployment in a list. It does not
// count other operators whose names are in absent.
func Last(list []Operator, name string, absent []string) bool {
	is := func(o Operator) bool { return o.leads() && o.Name == name }
	other := func(o Operator) bool { return o.leads() && o.Name != name && !slices.Contains(absent, o.Name) }
	return slices.ContainsFunc(list, is) && !slices.ContainsFunc(list, other)
}

// Drop removes the operators for whom gone returns true, even the last admin, with the
// events of gone. It is for a restored store.
func Drop(ctx context.Context, st store.Store, gone func(Operator) (store.Event, bool)) error {
	return operators.Drop(ctx, st, gone)
}

// seen records the time of a sign-in, and its event.
func seen(ctx context.Context, st store.Store, name string, now grant.Instant, e store.Event) error {
	return operators.Change(ctx, st, func(list []Operator) ([]Operator, []store.Event, error) {
		i, found := slices.BinarySearchFunc(list, name, byName)
		if !found {
			return nil, nil, ErrUnknown
		}
		list[i].SeenAt = now
		return list, []store.Event{e}, nil
	})
}
