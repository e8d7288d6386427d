package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed page
var page embed.FS

// asset is a file of the page.
type asset struct {
	name string
	data []byte
	tag  string
}

// types are the content types of the page's files. They are not left to the computer's own table, which may be wrong or missing.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Page serves the dashboard without data, which it asks for below /api/ at the same address.
func Page() http.Handler { return assets() }

// assets serves the files of the page. They hold no data, so everybody may have them; a browser asks each time whether its copy
// is still good.
func assets() http.Handler {
	files := map[string]*asset{}
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := page.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		files["/"+name[len("page/"):]] = &asset{name: name, data: data, tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			refuse(w, http.StatusInternalServerError, "the page cannot be read: "+err.Error())
			return
		}
		name := r.URL.Path
		if name == "/" {
			name = "/index.html"
		}
		file := files[name]
		if file == nil {
			refuse(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(file.name)])
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", file.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.data))
	})
}
