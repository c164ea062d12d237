package openid

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// A Demand holds which logins a request accepts, and the claims that it requests by
// name.
type Demand struct {
	Subjects []string // one of them; nil for any
	Classes  []string // one of them as acr; nil for any

	UserInfo, IDToken []string // names, sorted
}

// ErrClaims means that a text is no value of the parameter claims.
var ErrClaims = errors.New("claims request malformed")

// ReadClaims reads the parameter claims (OpenID Connect Core section 5.5). It returns the
// values that the request accepts for sub, in either member, and for an essential acr of
// the id_token: a voluntary acr may differ (section 5.5.1.1). Of other claims it returns
// only the names. It ignores their values, and whether they are essential.
func ReadClaims(text string) (Demand, error) {
	var d Demand
	top, err := object([]byte(text))
	if err != nil {
		return d, err
	}
	for _, name := range []string{"userinfo", "id_token"} {
		if top[name] == nil {
			continue
		}
		requested, err := object(top[name])
		if err != nil {
			return d, err
		}
		named := slices.Sorted(maps.Keys(requested))
		if name == "userinfo" {
			d.UserInfo = named
		} else {
			d.IDToken = named
		}
		for claim, raw := range requested {
			essential, accepted, err := request(claim, raw)
			switch {
			case err != nil:
				return d, err
			case accepted == nil:
			case claim == "sub" && d.Subjects != nil:
				d.Subjects = slices.DeleteFunc(d.Subjects, func(s string) bool { return !slices.Contains(accepted, s) })
			case claim == "sub":
				d.Subjects = accepted
			case name == "id_token" && essential:
				d.Classes = accepted
			}
		}
	}
	return d, nil
}

// request reads the request for one claim. accepted lists the accepted values. It is nil
// if every value is accepted, and for claims other than sub and acr.
func request(claim string, raw json.RawMessage) (essential bool, accepted []string, err error) {
	if string(raw) == "null" {
		return false, nil, nil
	}
	m, err := object(raw)
	if err != nil {
		return false, nil, err
	}
	if is := m["essential"]; is != nil && json.Unmarshal(is, &essential) != nil {
		return false, nil, ErrClaims
	}
	if claim != "sub" && claim != "acr" {
		return essential, nil, nil
	}
	value, values := m["value"], m["values"]
	switch {
	case value != nil && values != nil:
		return false, nil, ErrClaims
	case value != nil:
		values = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
	case values == nil:
		return essential, nil, nil
	}
	var list []*string
	if json.Unmarshal(values, &list) != nil || len(list) == 0 || slices.Contains(list, nil) {
		return false, nil, ErrClaims
	}
	for _, s := range list {
		accepted = append(accepted, *s)
	}
	return essential, accepted, nil
}

// object reads a JSON object and rejects repeated names. json.Unmarshal would keep the
// last of two members with one name, and match struct fields in any case.
func object(text []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') || !json.Valid(text) {
		return nil, ErrClaims
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, _ := t.(string)
		var raw json.RawMessage
		if err != nil || dec.Decode(&raw) != nil || members[name] != nil {
			return nil, ErrClaims
		}
		members[name] = raw
	}
	return members, nil
}
