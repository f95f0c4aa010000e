/// The one stylesheet of all pages.
public enum Stylesheet {
  /// SHA-256 of `text` for `style-src`. A test compares them and prints the right one.
  public static let hash = "sha256-TAss9/R/UA8pF6mSyfpPBAO0y/xbY0Sco80gzOqKyo0="

  static let element: HTML = "<style>\(sheet)</style>"

  public static var text: String { sheet.markup }

  private static let sheet: HTML = """
    :root{color-scheme:light dark;--bg:#f5f6f8;--card:#fff;--line:#e1e5ea;--text:#171b21;--soft:#535d6b;
    --accent:#2456c7;--on:#fff;--tint:#edf2fd;--good:#17693f;--good-tint:#e4f4eb;--warn:#835000;--warn-tint:#fff1d6;
    --bad:#a3301a;--bad-tint:#fdebe7;--neutral:#2456c7;--shadow:0 1px 2px rgba(20,30,50,.05),0 6px 20px rgba(20,30,50,.05)}
    @media (prefers-color-scheme:dark){:root{--bg:#101317;--card:#191d23;--line:#2c323b;--text:#e8ebf0;--soft:#a5aebb;
    --accent:#8db3ff;--on:#0b1220;--tint:#1a2436;--good:#63d69e;--good-tint:#12281e;--warn:#f2bd63;--warn-tint:#2c2212;
    --bad:#ff9f8a;--bad-tint:#331b15;--neutral:#8db3ff;--shadow:none}}
    *{box-sizing:border-box}
    body{margin:0;background:var(--bg);color:var(--text);
    font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
    h1,h2,h3{line-height:1.25;margin:0;overflow-wrap:anywhere}
    h1{font-size:1.6rem;letter-spacing:-.01em}h2{font-size:1.1rem}h3{font-size:1rem}
    a{color:var(--accent)}p{margin:.5rem 0}
    code,pre,.mono{font-family:ui-monospace,"Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875em}
    code{padding:.1em .35em;border-radius:.3rem;background:var(--tint);overflow-wrap:anywhere;
    -webkit-box-decoration-break:clone;box-decoration-break:clone}
    pre{margin:.5rem 0;padding:.8rem 1rem;border:1px solid var(--line);border-radius:.6rem;background:var(--bg);
    overflow:auto;line-height:1.45}
    :focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:.3rem}
    .good{--tone:var(--good);--tone-tint:var(--good-tint)}.neutral{--tone:var(--neutral);--tone-tint:var(--tint)}
    .warn{--tone:var(--warn);--tone-tint:var(--warn-tint)}.bad{--tone:var(--bad);--tone-tint:var(--bad-tint)}
    .notice{min-height:100vh;min-height:100svh;display:flex;align-items:center;justify-content:center;padding:1rem}
    .notice main{width:100%;max-width:31rem;padding:2rem;background:var(--card);border:1px solid var(--line);
    border-radius:1rem;box-shadow:var(--shadow);overflow-wrap:anywhere}
    .mark{width:3rem;height:3rem;margin:0 0 1.25rem;display:flex;align-items:center;justify-content:center;
    border-radius:50%;background:var(--tone-tint);color:var(--tone);font-size:1.4rem;font-weight:700;line-height:1}
    .notice h1{font-size:1.7rem}
    .lead{margin:.5rem 0 0;font-size:1.1rem;color:var(--soft)}
    dl{margin:1.25rem 0 0;border-top:1px solid var(--line)}
    dl div{display:flex;gap:1rem;padding:.55rem 0;border-bottom:1px solid var(--line)}
    dt{flex:0 0 7rem;color:var(--soft)}
    dd{margin:0;font-weight:600;min-width:0;overflow-wrap:anywhere}
    blockquote{margin:1.25rem 0 0;padding:.75rem 1rem;border-left:3px solid var(--tone);background:var(--bg);
    border-radius:0 .5rem .5rem 0;overflow-wrap:anywhere}
    .hint{margin:1.25rem 0 0}
    .by{margin:2rem 0 0;color:var(--soft);font-size:.85rem}
    """
}
