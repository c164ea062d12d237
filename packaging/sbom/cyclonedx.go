package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"time"
)

// The members of a CycloneDX 1.6 document that are used here.
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string     `json:"timestamp"`
		Component component  `json:"component"`
		Settings  []property `json:"properties"`
	}
	component struct {
		Type     string   `json:"type"`
		Ref      string   `json:"bom-ref"`
		Name     string   `json:"name"`
		Version  string   `json:"version"`
		Hashes   []hash   `json:"hashes,omitempty"`
		Licences []choice `json:"licenses,omitempty"`
		PURL     string   `json:"purl,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	choice struct {
		Licence struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

// document describes the program. All of it follows from the program, so the
// same program always has the same document.
func document(info *buildinfo.BuildInfo, modules []module, version string, sum [sha256.Size]byte, made time.Time) bom {
	main := component{
		Type: "application", Ref: "pkg:golang/" + info.Main.Path + "@" + version, Name: info.Main.Path, Version: version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licences: chosen([]string{"Apache-2.0"}),
		PURL: "pkg:golang/" + info.Main.Path + "@" + version,
	}
	doc := bom{
		Format: "CycloneDX", Spec: "1.6", Version: 1, Serial: serial(sum),
		Metadata: metadata{Timestamp: made.Format(time.RFC3339), Component: main},
	}
	for _, s := range info.Settings {
		doc.Metadata.Settings = append(doc.Metadata.Settings, property{"build:" + s.Key, s.Value})
	}
	needs := dependency{Ref: main.Ref}
	for _, m := range modules {
		c := component{Type: "library", Ref: m.reference(), Name: m.path, Version: m.version, PURL: m.reference(), Licences: chosen(m.ids())}
		doc.Components = append(doc.Components, c)
		needs.On = append(needs.On, c.Ref)
	}
	doc.Dependencies = []dependency{needs}
	return doc
}

func chosen(ids []string) (list []choice) {
	for _, id := range ids {
		var c choice
		c.Licence.ID = id
		list = append(list, c)
	}
	return list
}

// serial is a UUID (RFC 9562 version 8) of the program's digest.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
