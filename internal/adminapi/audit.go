package adminapi

import "github.com/mintage/mintage/internal/audit"

// AuditRecords is a page of the audit log of the machine that answers, the latest record
// first.
type AuditRecords struct {
	Records []audit.Entry `json:"records"`
	// Next is the value of before for the records before these; absent: there is none.
	Next uint64 `json:"next,omitempty"`
}

// An AuditHead names the last record of the audit log of the machine that answers. Kept
// elsewhere, it proves that nothing before it was removed or rewritten.
type AuditHead struct {
	Chain string `json:"chain"`
	Seq   uint64 `json:"seq"`
	Hash  string `json:"hash"`
}
