/// The one stylesheet, inline. The policy names its hash, so that no other style is applied.
enum Stylesheet {
  /// SHA-256 of `text` for `style-src`. A test compares them and prints the right one.
  static let hash = "sha256-Cs9fBdZUiN5/UiGwytSRmMeJCmrfGGWkRaqbajGpmoM="

  static let text = """
    :root{color-scheme:light dark;--bg:#eef0f3;--card:#fff;--line:#d9dde3;--text:#1b1f24;--soft:#57606a;
    --good:#1a7f4b;--neutral:#3b6fb5;--bad:#b3452c}
    @media (prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1e2227;--line:#343a42;--text:#e8eaed;--soft:#a3abb5;
    --good:#4cc38a;--neutral:#7aaaf0;--bad:#f0907a}}
    *{box-sizing:border-box}
    body{margin:0;min-height:100vh;min-height:100svh;display:flex;align-items:center;justify-content:center;padding:1rem;
    background:var(--bg);color:var(--text);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
    main{width:100%;max-width:30rem;padding:2rem;background:var(--card);border:1px solid var(--line);border-radius:.9rem;
    box-shadow:0 .5rem 1.5rem rgba(0,0,0,.07);overflow-wrap:anywhere}
    .good{--tone:var(--good)}.neutral{--tone:var(--neutral)}.bad{--tone:var(--bad)}
    .mark{width:3rem;height:3rem;margin:0 0 1.25rem;display:flex;align-items:center;justify-content:center;
    border:2px solid var(--tone);border-radius:50%;color:var(--tone);font-size:1.5rem;font-weight:700;line-height:1}
    h1{margin:0;font-size:1.75rem;line-height:1.2}
    .lead{margin:.5rem 0 0;font-size:1.1rem;color:var(--soft)}
    dl{margin:1.5rem 0 0;border-top:1px solid var(--line)}
    dl div{display:flex;gap:1rem;padding:.6rem 0;border-bottom:1px solid var(--line)}
    dt{flex:0 0 6rem;color:var(--soft)}
    dd{margin:0;font-weight:600}
    blockquote{margin:1.5rem 0 0;padding:.75rem 1rem;border-left:3px solid var(--tone);background:var(--bg);
    border-radius:0 .4rem .4rem 0}
    .hint{margin:1.25rem 0 0}
    code{padding:.1em .35em;border-radius:.3rem;background:var(--bg);font:.9em ui-monospace,Menlo,Consolas,monospace;
    -webkit-box-decoration-break:clone;box-decoration-break:clone}
    a{color:var(--neutral)}
    .by{margin:2rem 0 0;color:var(--soft);font-size:.85rem}
    """
}
