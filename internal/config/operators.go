package config

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// An OperatorRule is an item of console.operators: whoever signs in with a value of a
// claim is an operator of the console.
type OperatorRule struct {
	Role  string // auditor or admin
	Realm string // without its slash; "": the deployment
	Claim string
	Value string
}

func (r OperatorRule) String() string {
	who := r.Role
	if r.Realm != "" {
		who += "@" + r.Realm
	}
	return who + " " + r.Claim + "=" + r.Value
}

// ParseOperatorRule reads what String writes.
func ParseOperatorRule(text string) (r OperatorRule, err error) {
	who, fits, spaced := strings.Cut(text, " ")
	role, realm, confined := strings.Cut(who, "@")
	claim, value, equal := strings.Cut(strings.TrimSpace(fits), "=")
	r = OperatorRule{role, realm, claim, value}
	switch {
	case !spaced || !equal || claim == "" || value == "" || confined && realm == "":
		return r, errors.New("is neither ROLE CLAIM=VALUE nor ROLE@REALM CLAIM=VALUE; a value has no comma")
	case role != "auditor" && role != "admin":
		return r, errors.New("the role is neither auditor nor admin")
	case claim == "email":
		// Some providers let users change it unverified.
		return r, errors.New("an address can be changed by its user, and be given to another: name sub or a group")
	}
	return r, nil
}

// Fits reports whether a login with these claims is that of an operator by the rule: the
// claim is its value, or a list that has it.
func (r OperatorRule) Fits(claims map[string]json.RawMessage) bool {
	var list []string
	var one string
	if json.Unmarshal(claims[r.Claim], &one) == nil {
		return one == r.Value
	}
	return json.Unmarshal(claims[r.Claim], &list) == nil && slices.Contains(list, r.Value)
}

// Rules returns the items of console.operators. It skips invalid ones, which Check rejects.
func (c Console) Rules() (list []OperatorRule) {
	for _, text := range c.Operators {
		if r, err := ParseOperatorRule(text); err == nil {
			list = append(list, r)
		}
	}
	return list
}

// ByLogin reports whether operators sign in to the console by login.mode handoff or
// upstream.
func (c *Config) ByLogin() bool {
	return c.Console.Listen != "" && (c.Login.Mode == LoginHandoff || c.Login.Mode == LoginUpstream) && len(c.Console.SecondFactor.ACR)+len(c.Console.SecondFactor.AMR) > 0
}

// checkOperators checks console.second_factor and console.operators.
func checkOperators(c *Config, bad report) {
	factors := slices.Concat(c.Console.SecondFactor.ACR, c.Console.SecondFactor.AMR)
	switch given := len(factors)+len(c.Console.Operators) > 0; {
	case given && c.Console.Listen == "":
		bad("console.second_factor", "there is no console: set console.listen")
	case given && (c.Login.Mode == LoginUsers || c.Login.Mode == LoginOff):
		bad("console.second_factor", "login.mode is %s, so that no other system reports how a user logged in: leave this and console.operators out, and add operators by name (mintage operator add)", c.Login.Mode)
	case given && len(factors) == 0:
		bad("console.second_factor", "missing: name the values of acr or amr that a login with a second factor has")
	}
	for _, v := range factors {
		if strings.ContainsAny(v, " \t\"\\") {
			bad("console.second_factor", "%q is no value of acr or amr: write each as an item of the list", v)
		}
	}
	for _, text := range c.Console.Operators {
		r, err := ParseOperatorRule(text)
		if err != nil {
			bad("console.operators", "%q: %w", text, err)
		} else if _, known := c.Of(r.Realm); r.Realm != "" && !known {
			bad("console.operators", "%q: there is no realm %q", text, r.Realm)
		}
	}
}
