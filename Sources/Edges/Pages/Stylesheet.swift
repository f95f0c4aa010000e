/// The one stylesheet of all pages.
public enum Stylesheet {
  /// SHA-256 of `text` for `style-src`. A test compares them and prints the right one.
  public static let hash = "sha256-DlxVBP4sSG46/5pjSFBG2zbBecyYdWSHdP4J20HS+1Y="

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
    overflow:auto;line-height:1.45;scrollbar-width:thin;tab-size:4}
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
    .wide{width:100%;max-width:74rem;margin:0 auto;padding:0 1.25rem}
    .hidden,.skip:not(:focus){position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
    .skip:focus{position:absolute;left:1rem;top:.5rem;padding:.5rem 1rem;background:var(--card);z-index:2}
    .top{background:var(--card);border-bottom:1px solid var(--line)}
    .top .wide{display:flex;align-items:center;gap:1.5rem;min-height:3.5rem}
    .brand{font-weight:700;font-size:1.1rem;letter-spacing:-.02em;color:var(--text);text-decoration:none}
    .top nav{display:flex;gap:.15rem;flex:1;overflow-x:auto;scrollbar-width:none;padding:.35rem .2rem}
    .top nav a{padding:.4rem .75rem;border-radius:.6rem;color:var(--soft);text-decoration:none;white-space:nowrap}
    .top nav a:hover{background:var(--bg);color:var(--text)}
    .top nav a[aria-current]{background:var(--tint);color:var(--accent);font-weight:600}
    main.wide{padding-top:2rem;padding-bottom:4rem}main:focus{outline:none}
    .head{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start;justify-content:space-between;margin-bottom:1.5rem}
    .head .lead{font-size:1rem;margin-top:.25rem}
    .controls{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;margin-top:1rem}.head .controls{margin:0}
    form{margin:0}
    button,.button{display:inline-flex;align-items:center;justify-content:center;min-height:2.5rem;padding:.4rem 1rem;
    border:1px solid var(--line);border-radius:.65rem;background:var(--card);color:var(--text);font:inherit;font-weight:500;
    text-decoration:none;cursor:pointer}
    button:hover,.button:hover{border-color:var(--soft)}
    button.main,.button.main{background:var(--accent);border-color:var(--accent);color:var(--on);font-weight:600}
    button.danger{background:var(--bad);border-color:var(--bad);color:var(--card);font-weight:600}
    button.quiet,.button.quiet{border-color:transparent;background:transparent;color:var(--soft);padding:.4rem .6rem}
    button.quiet:hover,.button.quiet:hover{background:var(--bg);color:var(--text)}
    .cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem}
    .cards{align-items:start}.cards+.cards{margin-top:1rem}
    .cards.large{grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr))}
    .panels{align-items:start}.narrow{max-width:38rem}
    .card,.panel,.empty{background:var(--card);border:1px solid var(--line);border-radius:1rem;box-shadow:var(--shadow);
    padding:1.25rem;min-width:0}
    .card{display:flex;flex-direction:column}.card.bad{border-color:var(--bad)}
    .card .title{display:flex;gap:.75rem;align-items:flex-start;justify-content:space-between}
    .card .who{margin:.25rem 0 0;color:var(--soft);overflow-wrap:anywhere}
    .card .time{margin:1rem 0 0;font-size:.9rem;color:var(--soft)}.card .time p{margin:.4rem 0 0}
    .card .message{margin:1rem 0 0}
    .card>.controls{margin-top:auto;padding-top:1rem;gap:.25rem}
    .card>.controls button,.card>.controls .button{min-height:2.25rem;padding:.25rem .65rem;font-size:.925rem}
    .card .quiet{color:var(--accent)}.card>.controls>:first-child .quiet{margin-left:-.65rem}
    .badge{flex:none;display:inline-block;padding:.1rem .65rem;border-radius:1rem;background:var(--tone-tint);
    color:var(--tone);font-size:.85rem;font-weight:600;white-space:nowrap}
    .bar{display:block;width:100%;height:.4rem;border-radius:.2rem;overflow:hidden}
    .bar .rest{fill:var(--line)}.bar .part{fill:var(--tone)}
    .message{margin:0 0 1rem;padding:.75rem 1rem;border-radius:.75rem;background:var(--tone-tint);overflow-wrap:anywhere}
    .message p{margin:0}.message .step{margin-top:.3rem}.message>p:first-child{color:var(--tone);font-weight:600}
    .message code{background:var(--card)}
    .empty{text-align:center;padding:3.5rem 1.5rem}.empty p{color:var(--soft);max-width:34rem;margin:.5rem auto}
    .empty .controls{justify-content:center}
    .panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1rem}
    .panels.large{grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr))}
    .panel dl{margin-top:0;border-top:0}.panel dl div:last-child,.card dl div:last-child{border-bottom:0}.card dt{flex-basis:5rem}
    .panel p,.empty p{overflow-wrap:anywhere}
    .panel>:first-child,.spans{margin-top:0}.panel>:last-child,.panel>form:last-child>:last-child{margin-bottom:0}
    h2+form{margin-top:.75rem}form+div,form+.message,.filters{margin-top:1rem}.filters{margin-bottom:1rem}
    .message+h2{margin-top:1.75rem}.scroll+.soft{margin-top:1rem}
    details{margin-top:.75rem}summary{cursor:pointer;color:var(--accent);font-weight:600;padding:.25rem 0}
    ol{padding-left:1.4rem;margin:.75rem 0}li+li{margin-top:.25rem}.steps li+li{margin-top:0}
    .soft{color:var(--soft)}.lost{background:var(--bad-tint);color:var(--bad);padding:.6rem 0;font-weight:600}
    .steps{list-style:none;margin:0;padding:0}
    .steps li{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;justify-content:space-between;padding:.65rem 0;
    border-bottom:1px solid var(--line)}.steps li p{flex:1 0 100%;margin:0;font-size:.9rem;overflow-wrap:anywhere}
    .steps li:last-child{border-bottom:0}
    .address{font-size:1.05rem;overflow-wrap:anywhere;font-weight:600}
    .code{font:700 1.9rem/1.3 ui-monospace,Menlo,Consolas,monospace;letter-spacing:.08em;overflow-wrap:anywhere}
    label{display:block;font-weight:600;margin:.75rem 0 .25rem}.check{display:flex;gap:.6rem;align-items:center}
    .check label{margin:0;font-weight:400}
    input:not([type=checkbox],[type=hidden]),select{width:100%;max-width:32rem;min-height:2.5rem;padding:.4rem .75rem;
    border:1px solid var(--soft);border-radius:.65rem;background:var(--card);color:var(--text);font:inherit}
    .row{display:flex;flex-wrap:wrap;gap:.75rem 1rem;align-items:flex-end}.row>div{flex:1 1 11rem}.row>.check,.row>.go{flex:0 0 auto}.row>.check{min-height:2.5rem}
    .row label{margin-top:0}
    .pages{display:flex;flex-wrap:wrap;gap:.75rem;align-items:center;margin-top:1.5rem}
    .pages form{display:flex;gap:.5rem;align-items:center}.pages label{margin:0;font-weight:400;white-space:nowrap}
    .pages input{width:9rem}
    .scroll{overflow-x:auto;border:1px solid var(--line);border-radius:1rem;background:var(--card)}
    table{border-collapse:collapse;width:100%;font-size:.95rem}
    th,td{text-align:left;padding:.6rem .9rem;border-bottom:1px solid var(--line);vertical-align:top}
    tr:last-child>*{border-bottom:0}thead th{color:var(--soft);font-weight:600;font-size:.85rem}
    tbody th{font-weight:600}td p,th p{font-weight:400;margin:.15rem 0;font-size:.85rem;color:var(--soft)}
    td.long,th.long{min-width:11rem;overflow-wrap:anywhere}.nowrap{white-space:nowrap}tbody th.long{min-width:8rem}.scroll td p{min-width:8rem}
    .plot{display:block;width:100%;height:7rem;margin-top:.5rem}.plot .ok{fill:var(--accent)}.plot .no{fill:var(--bad)}
    .plot .axis{stroke:var(--line);vector-effect:non-scaling-stroke}
    .key{display:flex;gap:1rem;font-size:.85rem;color:var(--soft);margin:.5rem 0 0}
    .key b{display:inline-block;width:.7rem;height:.7rem;border-radius:.2rem;margin-right:.4rem}
    .key .ok{background:var(--accent)}.key .no{background:var(--bad)}
    .qr{display:block;width:100%;max-width:15rem;height:auto;margin:1rem 0;background:#fff;border-radius:.5rem}
    h2+.panel,h2+.scroll,h2+.cards,h2+.panels{margin-top:.75rem}.panel+h2,.scroll+h2,.cards+h2,.panels+h2{margin-top:2rem}
    @media (max-width:40rem){.top .wide{flex-wrap:wrap;gap:0 1rem;padding-top:.5rem}.brand{flex:1}
    .top nav{order:3;flex:1 0 100%;margin:0 -.5rem}main.wide{padding-top:1.25rem}.wide{padding-left:1rem;padding-right:1rem}
    dl div{flex-wrap:wrap;gap:0 1rem}h1{font-size:1.4rem}
    .top nav{gap:0}.top nav a{padding:.45rem .4rem;font-size:.85rem}
    .records thead{display:none}.records tr{display:flex;flex-wrap:wrap;gap:.1rem .75rem;padding:.75rem .9rem;
    border-bottom:1px solid var(--line)}.records td{padding:0;border:0;min-width:0}.records td:nth-child(2){font-weight:600;flex:1}
    .records td:nth-child(3),.records td:nth-child(4){flex:1 0 100%}}
    @media (prefers-reduced-motion:no-preference){button,.button,.top nav a{transition:background .12s,border-color .12s}}
    """
}
