//! What stands before a script: functions that scripts share, as far as this one needs them.
//!
//! Redis goes through a script's text from the top whenever it is called, and makes every function in it anew,
//! whether anybody calls it or not. So a script is given those that it calls, and those that they call.

use std::collections::BTreeSet;

/// A piece of Lua: a function at the margin, or the lines between two of them.
struct Piece<'a> {
    function: Option<&'a str>,
    lines: Vec<&'a str>,
}

/// The body behind what it needs of these texts, in their order.
pub(crate) fn before(texts: &[&str], body: &str) -> String {
    let pieces: Vec<Piece<'_>> = texts.iter().flat_map(|text| pieces(text)).collect();
    let mut needed = BTreeSet::new();
    let mut open: Vec<&str> = code(body).collect();
    let between = pieces.iter().filter(|piece| piece.function.is_none());
    open.extend(between.flat_map(|piece| &piece.lines));
    while let Some(line) = open.pop() {
        for word in words(line) {
            let called = pieces.iter().find(|piece| piece.function == Some(word));
            if let Some(called) = called.filter(|_| needed.insert(word)) {
                open.extend(&called.lines);
            }
        }
    }
    let kept =
        pieces.iter().filter(|piece| piece.function.is_none_or(|name| needed.contains(name)));
    let mut lines: Vec<&str> = kept.flat_map(|piece| piece.lines.iter().copied()).collect();
    lines.push(body);
    lines.join("\n")
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut inside = false;
    for line in code(text) {
        if inside {
            inside = line != "end";
            if let Some(piece) = pieces.last_mut() {
                piece.lines.push(line);
            }
            continue;
        }
        let function = line.strip_prefix("local function ").and_then(|rest| words(rest).next());
        inside = function.is_some() && !line.ends_with(" end");
        pieces.push(Piece { function, lines: vec![line] });
    }
    pieces
}

/// Lines that are not only there for people.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::before;

    const HEADER: &str = "-- For people: unused().\nlocal T = clock()\n\nlocal function one() return T end\n\n\
        local function two()\n  if T then\n    return one()\n  end\nend\n\n\
        local function unused() return two() end\n";

    #[test]
    fn a_script_has_what_it_calls_and_what_that_calls() {
        let clock = "local function clock() return 1 end\n";
        let expected = "local function clock() return 1 end\nlocal T = clock()\n\
            local function one() return T end\n\
            local function two()\n  if T then\n    return one()\n  end\nend\n\
            -- Not unused.\nreturn two()\n";
        assert_eq!(before(&[clock, HEADER], "-- Not unused.\nreturn two()\n"), expected);
    }

    #[test]
    fn what_nobody_calls_is_left_out() {
        let text = before(&["local function clock() return 1 end\n", HEADER], "return 1");
        assert_eq!(text, "local function clock() return 1 end\nlocal T = clock()\nreturn 1");
    }
}
