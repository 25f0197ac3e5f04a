"""A datacenter of one's own: job log, power and carbon to heuristics' table, trained policy and report."""

from sb3_greendc.experiments.my_site.assumptions import assumptions_summary as assumptions_summary
from sb3_greendc.experiments.my_site.carbon import lay_on as lay_on
from sb3_greendc.experiments.my_site.inputs import Site as Site
from sb3_greendc.experiments.my_site.inputs import check_environment as check_environment
from sb3_greendc.experiments.my_site.inputs import prepare_site as prepare_site
from sb3_greendc.experiments.my_site.inputs import read_jobs as read_jobs
from sb3_greendc.experiments.my_site.judging import short_table as short_table
from sb3_greendc.experiments.my_site.judging import site_experiment as site_experiment
from sb3_greendc.experiments.my_site.options import NAME as NAME
from sb3_greendc.experiments.my_site.options import add_options as add_options
from sb3_greendc.experiments.my_site.options import option_of as option_of
from sb3_greendc.experiments.my_site.options import require_effect_of_validate as require_effect_of_validate
from sb3_greendc.experiments.my_site.report import MODEL as MODEL
from sb3_greendc.experiments.my_site.report import portable_environment as portable_environment
from sb3_greendc.experiments.my_site.report import write_report as write_report
from sb3_greendc.experiments.my_site.validation import SITE_RULE as SITE_RULE
from sb3_greendc.experiments.my_site.validation import validate as validate
from sb3_greendc.experiments.my_site.validation import write_validation as write_validation
