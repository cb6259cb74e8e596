// Texts shows how this project's names and texts read:
//
//	go run ./texts -root .. names            the share of unexported functions that have one word
//	go run ./texts -root .. draw             texts drawn at random, for a reader who has not seen them
//
// A text is the first sentence of a comment, the text of an error, or the name of a test. draw takes -count texts
// by -seed. The next reading is of 80 texts by seed 20261207; whoever reads marks each as fine, odd (its idiom is
// not English), or in need of a second reading. A second reader, with a clock, is asked where a heartbeat is
// judged, where the TTL of a worker's queue is modelled and where that is tested, and what an execution meets on
// its way from the request to its end. Ten minutes are enough if ARCHITECTURE.md does its work.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func main() {
	root := flag.String("root", "..", "the folder of the project")
	count := flag.Int("count", 80, "how many texts")
	seed := flag.Uint64("seed", 20261207, "which texts")
	flag.Parse()
	names, texts, err := read(*root)
	if err != nil {
		fail(err)
	}
	switch flag.Arg(0) {
	case "names":
		one := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.IndexFunc(name, unicode.IsUpper) >= 0 })
		fmt.Fprintf(os.Stdout, "%d of %d unexported functions have one word: %.1f %%\n", len(one), len(names), 100*float64(len(one))/float64(len(names)))
	case "draw":
		r := rand.New(rand.NewPCG(*seed, 0))
		r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		for i, text := range texts[:min(*count, len(texts))] {
			fmt.Fprintf(os.Stdout, "%2d  %s\n", i+1, text)
		}
	default:
		fail(fmt.Errorf("texts: say names or draw, not %q", flag.Arg(0)))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// read returns the names of unexported functions outside tests, and all texts, in the order of the files.
func read(root string) (names, texts []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "out"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(path, "_test.go")
		at := func(n ast.Node) string {
			short, _ := filepath.Rel(root, path)
			return fmt.Sprintf("%s:%d: ", short, set.Position(n.Pos()).Line)
		}
		for _, group := range file.Comments {
			if text := new(doc.Package).Synopsis(group.Text()); len(strings.Fields(text)) > 3 {
				texts = append(texts, at(group)+text)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				switch name := n.Name.Name; {
				case test && strings.HasPrefix(name, "Test"):
					texts = append(texts, at(n)+name)
				case !test && !n.Name.IsExported() && name != "main" && name != "init" && name != "_":
					names = append(names, name)
				}
			case *ast.CallExpr:
				of, is := n.Fun.(*ast.SelectorExpr)
				if is && !test && len(n.Args) > 0 && slices.Contains([]string{"Errorf", "New"}, of.Sel.Name) && slices.Contains([]string{"fmt", "errors"}, fmt.Sprint(of.X)) {
					if text, ok := n.Args[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
						said, _ := strconv.Unquote(text.Value)
						texts = append(texts, at(n)+said)
					}
				}
			}
			return true
		})
		return nil
	})
	return names, texts, err
}
