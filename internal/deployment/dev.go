package deployment

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/mintage/mintage/internal/config"
)

// DevInfo is the content of dev.json, for scripts.
type DevInfo struct {
	Issuer        string `json:"issuer"`
	Listen        string `json:"listen"`
	TokenEndpoint string `json:"token_endpoint"`
	CAFile        string `json:"ca_file"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret"`
	RedirectURI   string `json:"redirect_uri"`
	Username      string `json:"username,omitempty"` // of the demo user
	Password      string `json:"password,omitempty"`
	SignIn        string `json:"sign_in,omitempty"` // where the demo user signs in
	AdminSocket   string `json:"admin_socket"`
	Management    string `json:"management"`
}

// DevFile returns the path of dev.json, which a --dev server leaves for scripts.
func DevFile(cfg config.Config) string { return filepath.Join(cfg.Data, "dev.json") }

// DevCertificate returns the paths of the certificate and key of a --dev server.
func DevCertificate(cfg config.Config) (cert, key string) {
	return filepath.Join(cfg.Data, "dev-cert.pem"), filepath.Join(cfg.Data, "dev-key.pem")
}

// DevCAFile returns the path of the certificate authority of a --dev server.
func DevCAFile(cfg config.Config) string { return filepath.Join(cfg.Data, "dev-ca.pem") }

// ReadDevFile reads the dev.json of an earlier start with --dev.
func ReadDevFile(cfg config.Config) (info DevInfo, err error) {
	text, err := os.ReadFile(DevFile(cfg))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	return info, err
}
