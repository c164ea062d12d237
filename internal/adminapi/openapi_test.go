package adminapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
)

// described are the types with the names of their schemas. Their members are compared with
// them, too. A member must be optional in both or required in both.
var described = map[string]any{
	"Problem": Problem{}, "API": API{}, "Trust": Trust{}, "AssertionRequest": AssertionRequest{}, "Judgement": AssertionVerdict{}, "SecretRequest": SecretRequest{}, "Secret": Secret{}, "NewSecret": NewSecret{}, "User": User{}, "UserDocument": UserDocument{}, "UserPatch": UserPatch{},
	"ImportRequest": ImportRequest{}, "ImportedUser": ImportedUser{}, "Imported": Imported{}, "PasswordRequest": PasswordRequest{}, "NewPassword": NewPassword{}, "NewSecondFactor": NewSecondFactor{}, "KeyChange": KeyChange{},
	"RotateRequest": RotateRequest{}, "WithdrawRequest": WithdrawRequest{}, "Withdrawal": Withdrawal{}, "Grant": Grant{}, "Session": Session{},
	"SessionRequest": SessionRequest{}, "EndedSessions": EndedSessions{}, "CutoffRequest": CutoffRequest{}, "NewCutoff": NewCutoff{},
	"RestoreRequest": RestoreRequest{}, "Restore": Restore{}, "CodeRequest": CodeRequest{}, "CodeAnswer": CodeAnswer{}, "Login": Login{},
	"NewClient": NewClient{}, "AcceptRequest": AcceptRequest{}, "RejectRequest": RejectRequest{}, "ContinueAnswer": ContinueAnswer{}, "Probe": Probe{}, "AdminToken": Token{}, "AdminTokenRequest": TokenRequest{}, "NewAdminToken": NewToken{},
	"Operator": Operator{}, "OperatorRequest": OperatorRequest{}, "InvitationRequest": InvitationRequest{}, "NewInvitation": NewInvitation{}, "ConsoleSession": ConsoleSession{},
	"AuditRecord": audit.Entry{}, "AuditRecords": AuditRecords{}, "AuditHead": AuditHead{}, "ExplainRequest": ExplainRequest{}, "Explanation": Explanation{}, "Reading": Reading{}, "Settings": Settings{}, "SettingValue": SettingValue{}, "ConsentPreview": ConsentPreview{}, "Word": Word{}, "Usage": Usage{}, "Watch": Watch{}, "Stage": Stage{}, "WatchedRequest": WatchedRequest{}, "Checkup": Checkup{}, "Finding": Finding{}, "Traffic": Traffic{}, "Series": Series{}, "LifeEntry": LifeEntry{},
	"ExplainedRequest": ExplainedRequest{}, "ExplainedToken": ExplainedToken{}, "ExplainedCode": ExplainedCode{}, "ExplainedClient": ExplainedClient{}, "ExplainedSession": ExplainedSession{}, "ExplainedLogout": ExplainedLogout{},
	"RealmList": Realms{}, "KeyList": struct {
		Keys []Key `json:"keys"`
	}{}, "SecretList": struct {
		Secrets []Secret `json:"secrets"`
	}{}, "EventList": struct {
		Events []Event `json:"events"`
	}{}, "CutoffList": struct {
		Cutoffs []Cutoff `json:"cutoffs"`
		Next    string   `json:"next,omitempty"`
	}{},
}

// undescribed are the types that have no schema, with the reason.
var undescribed = map[string]string{
	"Client":         "described by the table of settings; see the test",
	"SelfRegistered": "a member of Client; see the test",
	"Page":           "the parameters of a query",
	"LogLine":        "described as an object with any members, because it is for people",
}

// ofCommands are members that a command adds and no response has.
var ofCommands = []string{"events"}

// The description of the API contains the members of the types, and requires those that
// are always present.
func TestTypesAreWhatTheDescriptionSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name, value := range described {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			t.Errorf("%s is not described", name)
			continue
		}
		compareType(t, name, schema.Value, reflect.TypeOf(value), seen)
	}
	for _, name := range structs(t) {
		if !seen[name] && undescribed[name] == "" {
			t.Errorf("%s is compared with no schema: add it to described", name)
		}
	}
	// A client's members are those of the table of settings.
	answer, request := map[string]bool{}, map[string]bool{}
	for _, s := range client.Settings {
		answer[s.Member] = s.Optional
	}
	for name, optional := range map[string]bool{"id": false, "state": false, "secrets": false, "created_at": false, "updated_at": false, "self_registered": true} {
		answer[name] = optional
	}
	for name := range answer {
		request[name] = name != "name"
	}
	request["client_secret"] = true
	compare(t, "Client", doc.Components.Schemas["Client"].Value, answer)
	compare(t, "ClientDocument", doc.Components.Schemas["ClientDocument"].Value, request)
	for name, states := range map[string][]string{"Client": ClientStates, "ClientDocument": ClientStates[:2], "User": UserStates} {
		if enum := doc.Components.Schemas[name].Value.Properties["state"].Value.Enum; fmt.Sprint(enum) != fmt.Sprint(states) {
			t.Errorf("%s.state is described as one of %v, and is one of %v", name, enum, states)
		}
	}
	own := doc.Components.Schemas["Client"].Value.Properties["self_registered"].Value
	compare(t, "self_registered", own, members(reflect.TypeFor[SelfRegistered]()))
}

// structs returns the names of the exported structs of this package.
func structs(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			declared, ok := d.(*ast.GenDecl)
			for i := 0; ok && i < len(declared.Specs); i++ {
				if spec, ok := declared.Specs[i].(*ast.TypeSpec); ok && spec.Name.IsExported() {
					if _, ok := spec.Type.(*ast.StructType); ok {
						names = append(names, spec.Name.Name)
					}
				}
			}
		}
	}
	return names
}

// compareType compares a schema with a type, and the schemas of its members with their
// types. A schema without properties allows any members. It records the names of the types
// in seen.
func compareType(t *testing.T, name string, schema *openapi3.Schema, of reflect.Type, seen map[string]bool) {
	t.Helper()
	compare(t, name, schema, members(of))
	seen[of.Name()] = true
	for field := range of.Fields() {
		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		elem, below := field.Type, schema.Properties[member]
		if field.Anonymous {
			seen[elem.Name()] = true
			continue
		}
		for elem.Kind() == reflect.Slice || elem.Kind() == reflect.Pointer {
			if elem.Kind() == reflect.Slice && below != nil {
				below = below.Value.Items
			}
			elem = elem.Elem()
		}
		ours := elem.PkgPath() == reflect.TypeFor[Key]().PkgPath() && elem.Kind() == reflect.Struct && undescribed[elem.Name()] == ""
		if ours && below != nil && len(below.Value.Properties) > 0 {
			compareType(t, name+"."+member, below.Value, elem, seen)
		}
	}
}

// compare compares a schema with a type's members, and whether each is optional.
func compare(t *testing.T, name string, schema *openapi3.Schema, is map[string]bool) {
	t.Helper()
	for member, optional := range is {
		if _, there := schema.Properties[member]; !there && !slices.Contains(ofCommands, member) {
			t.Errorf("%s.%s is not described", name, member)
		}
		if optional && slices.Contains(schema.Required, member) {
			t.Errorf("%s.%s is required, and may be left out", name, member)
		}
	}
	for member := range schema.Properties {
		if _, there := is[member]; !there {
			t.Errorf("%s.%s is described, and does not exist", name, member)
		}
	}
	for _, member := range schema.Required {
		if _, there := is[member]; !there {
			t.Errorf("%s.%s is required, and does not exist", name, member)
		}
	}
}

// members returns the JSON members of a type, and whether each is optional.
func members(of reflect.Type) map[string]bool {
	list := map[string]bool{}
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			for name, optional := range members(field.Type) {
				list[name] = optional
			}
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		list[name] = options != ""
	}
	return list
}
