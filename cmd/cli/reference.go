package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceCmd makes the command that writes docs/cli.md.
func (a *app) referenceCmd() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Hidden: true, Short: "Write docs/cli.md", Args: takes(),
		RunE: body(func(context.Context, []string) error {
			_, err := io.WriteString(a.stdout, Reference())
			return err
		}),
	}
}

const referenceHead = `# The command line

<!-- Made from the commands by "go generate ./cmd/cli"; do not edit. -->

`

const referenceRules = `
## Exit codes

| code | |
|---|---|
| 0 | done |
| 1 | not acquired, lost, assertion failed, or refused by the server; ` + "`backup`" + `: damaged |
| 2 | the command line, or a value in it, is not understood |
| 69 | the server cannot be reached, or cannot serve; ` + "`cluster health`" + `: not healthy |
| 75 | the wait for a lock, or with ` + "`--wait`" + ` for the cluster, is over |
| 126, 127 | ` + "`run`" + `: the command cannot be run, was not found |
| 130, 143 | ended by SIGINT (Ctrl-C), SIGTERM; a wait for a lock leaves nothing in the queue |

` + "`run`" + ` passes on the exit code of its command.

## JSON

With ` + "`--json`" + ` a command writes one line to standard output, whether it succeeds or fails, and
nothing but that (` + "`watch`" + `: one line an event):

` + "```json" + `
{"schema_version":1,"ok":true,"data":{"owner":"deploy-7","namespace":"tenant:/acme","fencing_token":12, …}}
{"schema_version":1,"ok":false,"error":{"code":"CONFLICT","message":"not acquired: …","details":{"path":"tenant:/acme/x", …}}}
` + "```" + `

Under one ` + "`schema_version`" + ` fields may be added, and none changes or goes. ` + "`error.code`" + ` is one of
` + "`USAGE`, `CONFLICT`, `WAIT_TIMEOUT`, `LOST`, `ASSERT_FAILED`, `UNREACHABLE`, `NO_ANSWER`, `UNHEALTHY`, `INTERRUPTED`,\n`NOT_RUNNABLE`, `DAMAGED`, `OTHER_FORMAT`, `NO_BACKUP`" + `, or what the server refused with: ` + "`INVALID_ARGUMENT`, `FAILED_PRECONDITION`, `RESOURCE_EXHAUSTED`,\n`ABORTED`, `UNAVAILABLE`" + ` and the like. ` + "`details`" + ` tells programs more, where there is more.

## Environment

| variable | |
|---|---|
| ` + "`PATHLOCK_ADDR`" + ` | the server, unless ` + "`--addr`" + ` is given |
| ` + "`PATHLOCK_OWNER`" + ` | the owner, unless ` + "`--owner`" + ` is given (all commands but ` + "`run`" + `) |
| ` + "`PATHLOCK_TOKEN`" + ` | the token of ` + "`assert`" + `, unless ` + "`--token`" + ` is given |

` + "`run`" + ` sets all three for its command. A script that takes several locks sets the owner once:

` + "```sh" + `
export PATHLOCK_OWNER="nightly-$$"
trap 'pathlock release --all' EXIT
pathlock acquire tenant:/acme/reports --ttl 10m --wait 5m || exit
…
pathlock renew --ttl 10m || exit    # exit code 1: lost, stop
` + "```" + `

## Shell completion

` + "`pathlock completion bash`" + ` (or zsh, fish, powershell) writes a script for that shell:

` + "```sh" + `
source <(pathlock completion bash)
` + "```" + `
`

// Reference is docs/cli.md.
func Reference() string {
	a := &app{}
	root := a.root()
	var b strings.Builder
	b.WriteString(referenceHead)
	fmt.Fprintf(&b, "%s\n\n```sh\n%s\n```\n\n", fenced(root.Long), trimIndent(root.Example))
	b.WriteString("| command | |\n|---|---|\n")
	each(root, func(cmd *cobra.Command) {
		if cmd.HasAvailableSubCommands() {
			return
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"),
			cmd.Short)
	})
	b.WriteString("\nFlags of every command:\n\n")
	flagTable(&b, root.PersistentFlags())
	b.WriteString(referenceRules)
	each(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n", cmd.CommandPath())
		if !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "```\n%s\n```\n\n", cmd.UseLine())
		}
		fmt.Fprintf(&b, "%s\n\n```sh\n%s\n```\n", fenced(cmd.Long), trimIndent(cmd.Example))
		if cmd.NonInheritedFlags().HasAvailableFlags() {
			b.WriteByte('\n')
			flagTable(&b, cmd.NonInheritedFlags())
		}
	})
	return b.String()
}

// each calls f with every command that people are shown, in order.
func each(root *cobra.Command, f func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion" {
			f(cmd)
			each(cmd, f)
		}
	}
}

// flagTable appends what flags there are.
func flagTable(b *strings.Builder, fs *pflag.FlagSet) {
	b.WriteString("| flag | default | |\n|---|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, help := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		def := f.DefValue
		switch {
		case f.Value.Type() == "bool":
			def = ""
		case f.NoOptDefVal != "":
			name += "[=" + value + "]"
		case value != "":
			name += " " + value
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, def, strings.ReplaceAll(help, "|", `\|`))
	})
}

// fenced is help text as Markdown: what is indented is preformatted.
func fenced(text string) string {
	var parts []string
	for part := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(part, "  ") {
			part = "```\n" + trimIndent(part) + "\n```"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n\n")
}

// trimIndent removes the indentation of examples.
func trimIndent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
