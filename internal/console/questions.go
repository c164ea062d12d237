package console

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// A question holds the texts of a page that asks for confirmation, in English.
type question struct{ ID, Heading, Note, Button string }

var (
	endGrantQuestion     = question{"end", "End this grant?", "The client loses this access, and the user has to sign in again to give it back.", "End the grant"}
	endGrantsQuestion    = question{"end", "End all of these grants?", "Codes that were not redeemed become invalid too.", "End them"}
	userSessionQuestion  = question{"end", "End this session?", "The user is signed out in that browser.", "End the session"}
	sessionQuestion      = question{"end", "End this session?", "The browser is signed out with its next request.", "End the session"}
	disableUserQuestion  = question{"disable", "Disable this user?", "The user cannot sign in, and is signed out everywhere. Enabling the user again does not restore grants.", "Disable the user"}
	resetFactorQuestion  = question{"remove", "Remove the second factor?", "The user then signs in with the password alone, until another factor is set up, and is signed out of the console. Make sure that it is the user who asks.", "Remove it"}
	revokeSecretQuestion = question{"revoke", "Revoke this secret?", "A program that still has it is refused from then on. The secret cannot be restored.", "Revoke the secret"}
	rotateQuestion       = question{"rotate", "Rotate the keys now?", "Each key gets a successor, which is used once all nodes and clients can have it. Tokens made with the present keys stay valid until they expire.", "Rotate them"}
	deleteClientQuestion = question{"delete", "Delete this client?", "It cannot be restored, and its id is never used again.", "Delete for good"}
	deleteAPIQuestion    = question{"delete", "Delete this API?", "Access tokens that name it are refused at once, also if it is registered again. Grants stay valid for their other APIs.", "Delete for good"}

	questions = []question{endGrantQuestion, endGrantsQuestion, userSessionQuestion, sessionQuestion, disableUserQuestion, resetFactorQuestion, revokeSecretQuestion, rotateQuestion, deleteClientQuestion, deleteAPIQuestion}
)

// An askPage asks for confirmation before something ends.
type askPage struct {
	question
	Facts   []fact
	N       *count // of the active grants that end; nil: they are not counted
	Doubt   string // why it may be in use, in English; ""
	Typed   string // text to type, because nobody can undo the action; "": none
	Fresh   bool   // it needs a fresh sign-in
	Back    string
	Command string

	Grown bool // more grants would end than the page showed
	Wrong bool // something else was typed
}

// A fact is a property of the object that a question is about. Its name is a text of the
// console.
type fact struct {
	Name, Value string
	At          *time.Time // in place of Value
	Code        bool
}

// An asking returns the page of a question, and the function to call if the operator
// confirms.
type asking func(ctx context.Context, r *request) (askPage, act, error)

// An act performs an action, and returns the address of the page that reports it.
type act func() (to string, err error)

// A stalePage asks for a new sign-in.
type stalePage struct{}

// asks returns the routes of an action that ends something, or that nobody can undo. GET
// asks for confirmation. POST performs the action, unless the confirmation does not match,
// or more grants would end than the page showed.
func asks(path string, prepare asking) []route {
	ask := func(ctx context.Context, r *request) (reply, error) {
		p, _, err := prepare(ctx, r)
		return reply{page: p}, err
	}
	do := func(ctx context.Context, r *request) (reply, error) {
		p, do, err := prepare(ctx, r)
		if err != nil {
			return reply{}, err
		}
		p.Wrong = p.Typed != "" && strings.TrimSpace(r.PostFormValue("typed")) != p.Typed
		p.Grown = p.N != nil && p.N.N > counted(r.PostFormValue("counted"))
		switch {
		case p.Fresh && r.admin() && !r.session.Fresh(r.now): // finding an open browser is not enough
			return reply{status: http.StatusForbidden, page: stalePage{}}, nil
		case p.Grown:
			return reply{status: http.StatusConflict, page: p}, nil
		case p.Wrong:
			return reply{status: http.StatusUnprocessableEntity, page: p}, nil
		}
		to, err := do()
		return reply{to: to}, err
	}
	return []route{{method: http.MethodGet, path: path, handle: ask}, {method: http.MethodPost, path: path, handle: do}}
}

// reverses returns the route of an action that can be undone. POST performs it at once,
// and the page after it offers to undo it.
func reverses(path string, do func(ctx context.Context, r *request) (to string, err error)) []route {
	return []route{{method: http.MethodPost, path: path, handle: func(ctx context.Context, r *request) (reply, error) {
		to, err := do(ctx, r)
		return reply{to: to}, err
	}}}
}
