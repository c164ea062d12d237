package adminapi

import "time"

// A ConsentPreview is what the consent page says to a user of whom an application asks all
// scopes of an API.
type ConsentPreview struct {
	Locale string `json:"locale"`
	Words  []Word `json:"words"`
}

// A Word is one element of a page as people read it.
type Word struct {
	Kind string `json:"kind"` // heading, text, item or button
	Text string `json:"text"`
}

// A Usage is what users have allowed a client, of the active ones among at most 10,000
// grants.
type Usage struct {
	Grants     int        `json:"grants"`
	Users      int        `json:"users"`
	Scope      string     `json:"scope"`        // all that they have allowed
	LastUsedAt *time.Time `json:"last_used_at"` // null: there is none
	More       bool       `json:"more"`         // there are grants that were not looked at
}
