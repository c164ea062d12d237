package resource

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/dpop"
)

// protectedPath is the path of the metadata of a resource (RFC 9728 section 3).
const protectedPath = "/.well-known/oauth-protected-resource"

// MetadataPath returns the path at which clients look for the metadata of this API:
// the well-known one, and behind it the path of Config.Audience (RFC 9728 section
// 3.1).
func (v *Verifier) MetadataPath() string {
	u, err := url.Parse(v.cfg.Audience)
	if err != nil || u.Path == "/" { // a slash behind the host alone is left out
		return protectedPath
	}
	return protectedPath + u.EscapedPath()
}

// metadataURL returns the address of the metadata. It requires PublishMetadata, with which
// Config.Audience was checked.
func (v *Verifier) metadataURL() string {
	u, _ := url.Parse(v.cfg.Audience)
	return u.Scheme + "://" + u.Host + v.MetadataPath()
}

// Metadata returns a handler of the metadata of this API (RFC 9728 section 2). They
// are public: scripts of any origin may read them.
func (v *Verifier) Metadata() http.Handler {
	body, err := json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Proofs   []string `json:"dpop_signing_alg_values_supported"`
	}{v.cfg.Audience, []string{v.cfg.Issuer}, v.cfg.ScopesSupported, []string{"header"}, dpop.Algorithms})
	if err != nil {
		panic(err) // it holds texts
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=3600")
			w.Write(body)
		case http.MethodOptions: // a preflight: clients send headers of their own
			h.Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "method must be GET", http.StatusMethodNotAllowed)
		}
	})
}
