// Command gen makes the Go code of the .proto files. It compiles them itself and
// runs the two plugins at the versions that go.mod pins, so that nothing has to be
// installed by hand.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	file   = "pathlockd/v1/pathlock.proto"
	module = "module=github.com/pathlockd/pathlockd/compat"
)

func main() {
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate reads the file under a folder of sources and writes below another one.
func generate(sources, out string) error {
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{sources}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), file)
	if err != nil {
		return fmt.Errorf("compile %s: %w", file, err)
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		req := &pluginpb.CodeGeneratorRequest{
			FileToGenerate: []string{file}, Parameter: proto.String(module),
			ProtoFile: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
		}
		if err := run(plugin, req, out); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return writeComments(files[0], out)
}

// run asks a plugin and writes what it answers.
func run(plugin string, req *pluginpb.CodeGeneratorRequest, out string) error {
	in, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", plugin) //nolint:gosec // one of the two above
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var res pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &res); err != nil {
		return err
	}
	if res.Error != nil {
		return fmt.Errorf("%s", res.GetError())
	}
	for _, f := range res.File {
		name := filepath.Join(out, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // source code
			return err
		}
		if err := os.WriteFile(name, []byte(f.GetContent()), 0o644); err != nil { //nolint:gosec // source code
			return err
		}
	}
	return nil
}
